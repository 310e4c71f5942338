//! `examples/em-dev`: one control plane and one worker, with their configs on cidata volumes.

use serde_json::json;

use super::{Derived, Example, assert_vm, setting, talos_notes};

const CONTROL_PLANE: Derived =
    Derived { uuid: "0bfb8504-3a54-5aad-94e3-263f920532bd", mac: "02:FD:72:97:BC:93" };
const WORKER: Derived =
    Derived { uuid: "641bfa53-4579-5dc4-9d87-92340cd2cc73", mac: "02:9C:C3:EE:E1:38" };

#[test]
fn em_dev_matches_its_inventory() {
    let example = Example::up("em-dev", &[]);
    machines(&example);
    nodes(&example);
    outputs(&example);
}

fn machines(example: &Example) {
    let vms = example.lab_state.vms();
    assert_eq!(vms.keys().copied().collect::<Vec<_>>(), [100, 103]);
    for (vmid, name, disk, Derived { uuid, mac }) in
        [(100, "dev-cp-1", "40G", CONTROL_PLANE), (103, "dev-wk-1", "60G", WORKER)]
    {
        let vm = &vms[&vmid];
        assert_eq!((vm.host.as_str(), &vm.pool), ("pve1", &None));
        // The cidata volume was removed after the node had read its config.
        let lines = format!(
            "balloon: 0
             bios: ovmf
             boot: order=scsi0
             cores: 4
             cpu: host
             efidisk0: local-lvm:vm-{vmid}-disk-0,efitype=4m,pre-enrolled-keys=0,size=4M
             machine: q35
             memory: 8192
             name: {name}
             net0: virtio={mac},bridge=vmbr0
             numa: 0
             onboot: 1
             ostype: l26
             protection: 0
             scsi0: local-lvm:vm-{vmid}-disk-1,size={disk}
             scsihw: virtio-scsi-pci
             serial0: socket
             smbios1: uuid={uuid}
             tags: dev;talmox"
        );
        assert_vm(vm, &talos_notes("dev", name), &lines);
    }
    let disks = example.lab_state.volumes("pve1", "local-lvm");
    let disks: Vec<&str> = disks.keys().map(String::as_str).collect();
    let own = |vmid: u32| (0..2).map(move |disk| format!("local-lvm:vm-{vmid}-disk-{disk}"));
    assert_eq!(disks, [100, 103].into_iter().flat_map(own).collect::<Vec<_>>());
    // Only the image remains, because `up` deletes uploaded files if the token permits it.
    let files = example.lab_state.volumes("pve1", "local");
    assert_eq!(files.len(), 1, "{files:?}");
    // The image has no extensions, so its name contains the default schematic.
    let image = "local:import/talos-v1.8.2-nocloud-amd64-376567988ad37013.qcow2";
    assert!(files.contains_key(image), "{files:?}");
}

fn nodes(example: &Example) {
    let lab_state = &example.lab_state;
    let control_plane = lab_state.node("10.0.10.11", true);
    let worker = lab_state.node("10.0.10.21", false);
    for (node, name, address, kind) in [
        (&control_plane, "dev-cp-1", "10.0.10.11/24", "controlplane"),
        (&worker, "dev-wk-1", "10.0.10.21/24", "worker"),
    ] {
        assert_eq!((node.hostname.as_str(), node.version.as_str()), (name, "v1.8.2"));
        assert_eq!(node.stage, "running");
        assert_eq!(node.addresses.iter().collect::<Vec<_>>(), [address]);
        let has = |path: &str| setting(node, path).unwrap();
        assert_eq!(has("machine/type"), kind);
        assert_eq!(has("machine/network/hostname"), name);
        assert_eq!(has("machine/network/nameservers/0"), "10.0.10.1");
        assert_eq!(has("machine/network/interfaces/0/addresses/0"), address);
        assert_eq!(has("machine/network/interfaces/0/routes/0/gateway"), "10.0.10.1");
        assert_eq!(setting(node, "machine/network/interfaces/0/vip"), None);
        assert_eq!(has("cluster/clusterName"), "dev");
        assert_eq!(has("cluster/network/podSubnets/0"), "10.244.0.0/16");
        assert_eq!(has("cluster/network/serviceSubnets/0"), "10.96.0.0/12");
        assert_eq!(has("cluster/controlPlane/endpoint"), "https://10.0.10.11:6443");
        assert_eq!(has("machine/kubelet/image"), "ghcr.io/siderolabs/kubelet:v1.30.1");
    }
    let members: Vec<&str> = control_plane.etcd.values().map(String::as_str).collect();
    assert_eq!(members, ["dev-cp-1"]);
    let known = lab_state.kubernetes("10.0.10.11");
    let known: Vec<_> = known
        .iter()
        .map(|node| (node.name.as_str(), node.is_ready, node.kubelet_version.as_str()))
        .collect();
    assert_eq!(known, [("dev-cp-1", true, "v1.30.1"), ("dev-wk-1", true, "v1.30.1")]);
}

fn outputs(example: &Example) {
    let node = |vmid: u32, name: &str, ip: &str, mac: &str, role: &str| {
        json!({
            "vmid": vmid,
            "vm_name": name,
            "node": "pve1",
            "ip_address": ip,
            "mac_address": mac,
            "role": role,
            "talos_version": "v1.8.2",
            "kubernetes_version": "v1.30.1",
            "from_inventory": [],
        })
    };
    assert_eq!(
        example.output_json(),
        json!({
            "cluster": "dev",
            "endpoint": "https://10.0.10.11:6443",
            "vip": null,
            "talos_version": "v1.8.2",
            "kubernetes_version": "v1.30.1",
            "from_inventory": [],
            "nodes": {
                "dev-cp-1": node(100, "dev-cp-1", "10.0.10.11", CONTROL_PLANE.mac, "controlplane"),
                "dev-wk-1": node(103, "dev-wk-1", "10.0.10.21", WORKER.mac, "worker"),
            },
        })
    );
    assert_eq!(
        example.output(""),
        "\
NODE      ROLE          VMID  HOST  ADDRESS     MAC                TALOS   KUBERNETES
dev-cp-1  controlplane  100   pve1  10.0.10.11  02:FD:72:97:BC:93  v1.8.2  v1.30.1
dev-wk-1  worker        103   pve1  10.0.10.21  02:9C:C3:EE:E1:38  v1.8.2  v1.30.1
"
    );
    assert_eq!(example.output("dev-wk-1.vmid"), "103\n");
    assert_eq!(example.output("kubeconfig"), example.written("kubeconfig"));
    assert_eq!(example.output("talosconfig"), example.written("talosconfig"));
}
