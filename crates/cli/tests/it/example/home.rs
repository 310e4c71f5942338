//! `examples/home`: three control planes with a VIP and two workers, without a CNI.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::json;

use super::{Derived, Example, assert_vm, setting, talos_notes};
use crate::lab_state::NodeState;

/// Vmid, name, address and derived values of each node.
const NODES: [(u32, &str, &str, Derived); 5] = [
    (
        300,
        "talos-cp-01",
        "10.0.0.11",
        Derived { uuid: "7758fd8d-419f-5d17-afcc-c7171e127465", mac: "02:99:32:9A:0F:66" },
    ),
    (
        301,
        "talos-cp-02",
        "10.0.0.12",
        Derived { uuid: "a06bc5b5-0f9f-5c97-8a0b-849a988ef4df", mac: "02:3C:F9:CC:41:13" },
    ),
    (
        302,
        "talos-cp-03",
        "10.0.0.13",
        Derived { uuid: "1bb1070e-994f-54da-9307-50ea26693b6b", mac: "02:D2:0C:F9:1D:B6" },
    ),
    (
        303,
        "talos-worker-01",
        "10.0.0.21",
        Derived { uuid: "4e2177af-dc88-5739-80fe-bf5b5fe333c4", mac: "02:17:03:B9:28:38" },
    ),
    (
        304,
        "talos-worker-02",
        "10.0.0.22",
        Derived { uuid: "fe7ce8ad-10e9-56f1-8eed-db584f8947be", mac: "02:94:AC:5A:E8:B3" },
    ),
];

#[test]
fn home_matches_its_inventory() {
    let example = Example::up("home", &[]);
    machines(&example);
    nodes(&example);
    outputs(&example);
}

fn machines(example: &Example) {
    let vms = example.lab_state.vms();
    assert_eq!(vms.keys().copied().collect::<Vec<_>>(), [300, 301, 302, 303, 304]);
    for (vmid, name, _, Derived { uuid, mac }) in NODES {
        let vm = &vms[&vmid];
        assert_eq!((vm.host.as_str(), &vm.pool), ("atlas", &None));
        let lines = format!(
            "agent: enabled=1
             balloon: 0
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
             scsi0: local-lvm:vm-{vmid}-disk-1,size=40G
             scsihw: virtio-scsi-pci
             serial0: socket
             smbios1: uuid={uuid}
             tags: home;talmox"
        );
        assert_vm(vm, &talos_notes("home", name), &lines);
    }
    assert_eq!(example.lab_state.volumes("atlas", "local").len(), 1, "one image for all");
}

fn nodes(example: &Example) {
    let nodes: BTreeMap<&str, NodeState> = NODES
        .iter()
        .map(|(vmid, name, address, _)| (*name, example.lab_state.node(address, *vmid < 303)))
        .collect();
    let mut holders = vec![];
    let members: BTreeSet<&str> = ["talos-cp-01", "talos-cp-02", "talos-cp-03"].into();
    let ids: Vec<u64> = nodes["talos-cp-01"].etcd.keys().copied().collect();
    for (vmid, name, address, _) in NODES {
        let node = &nodes[name];
        assert_eq!((node.hostname.as_str(), node.version.as_str()), (name, "v1.11.2"));
        assert_eq!(node.stage, "running");
        let mut addresses = node.addresses.clone();
        if addresses.remove("10.0.0.20/32") {
            holders.push(name);
        }
        assert_eq!(addresses.iter().collect::<Vec<_>>(), [&format!("{address}/16")]);
        let extensions: Vec<&str> = node.extensions.keys().map(String::as_str).collect();
        assert_eq!(extensions, ["qemu-guest-agent", "schematic", "tailscale"]);
        let has = |path: &str| setting(node, path).unwrap();
        let is_control_plane = vmid < 303;
        assert_eq!(has("machine/type"), if is_control_plane { "controlplane" } else { "worker" });
        assert_eq!(has("cluster/controlPlane/endpoint"), "https://10.0.0.20:6443");
        assert_eq!(has("cluster/network/cni/name"), "none");
        assert_eq!(has("machine/features/hostDNS/forwardKubeDNSToHost"), "false");
        let vip = setting(node, "machine/network/interfaces/0/vip/ip");
        assert_eq!(vip.as_deref(), is_control_plane.then_some("10.0.0.20"));
        // In a lab, the real auth key is not resolved, and a placeholder is used.
        assert!(node.config.contains("TS_AUTHKEY=rehearsal"), "{name}");
        if is_control_plane {
            assert_eq!(has("cluster/proxy/disabled"), "true");
            assert_eq!(node.etcd.values().map(String::as_str).collect::<BTreeSet<_>>(), members);
            assert_eq!(node.etcd.keys().copied().collect::<Vec<_>>(), ids, "one cluster");
        }
    }
    assert_eq!(holders.len(), 1, "one node holds the VIP: {holders:?}");
    assert!(members.contains(holders[0]), "{holders:?}");
    // The Kubernetes API is queried at the VIP. Without a CNI no node becomes ready, and `up` does not wait for ready
    // nodes.
    let known = example.lab_state.kubernetes("10.0.0.20");
    assert_eq!(known.len(), 5);
    for (node, (_, name, address, _)) in known.iter().zip(NODES) {
        assert_eq!((node.name.as_str(), node.kubelet_version.as_str()), (name, "v1.32.1"));
        assert_eq!(node.internal_addresses, [address.parse::<std::net::IpAddr>().unwrap()]);
        assert!(!node.is_ready && node.reason.contains("cni plugin not initialized"), "{node:?}");
    }
}

fn outputs(example: &Example) {
    let all = example.output_json();
    assert_eq!(all["cluster"], "home");
    assert_eq!(all["endpoint"], "https://10.0.0.20:6443");
    assert_eq!(all["vip"], "10.0.0.20");
    assert_eq!(all["talos_version"], "v1.11.2");
    assert_eq!(all["kubernetes_version"], "v1.32.1");
    assert_eq!(all["nodes"].as_object().unwrap().len(), 5);
    assert_eq!(
        all["nodes"]["talos-worker-02"],
        json!({
            "vmid": 304,
            "vm_name": "talos-worker-02",
            "node": "atlas",
            "ip_address": "10.0.0.22",
            "mac_address": "02:94:AC:5A:E8:B3",
            "role": "worker",
            "talos_version": "v1.11.2",
            "kubernetes_version": "v1.32.1",
            "from_inventory": [],
        })
    );
    assert_eq!(
        example.output(""),
        "\
NODE             ROLE          VMID  HOST   ADDRESS    MAC                TALOS    KUBERNETES
talos-cp-01      controlplane  300   atlas  10.0.0.11  02:99:32:9A:0F:66  v1.11.2  v1.32.1
talos-cp-02      controlplane  301   atlas  10.0.0.12  02:3C:F9:CC:41:13  v1.11.2  v1.32.1
talos-cp-03      controlplane  302   atlas  10.0.0.13  02:D2:0C:F9:1D:B6  v1.11.2  v1.32.1
talos-worker-01  worker        303   atlas  10.0.0.21  02:17:03:B9:28:38  v1.11.2  v1.32.1
talos-worker-02  worker        304   atlas  10.0.0.22  02:94:AC:5A:E8:B3  v1.11.2  v1.32.1
"
    );
    assert_eq!(example.output("vip"), "10.0.0.20\n");
    assert_eq!(
        example.output("talos-cp-01"),
        "\
vmid                300
vm_name             talos-cp-01
node                atlas
ip_address          10.0.0.11
mac_address         02:99:32:9A:0F:66
role                controlplane
talos_version       v1.11.2
kubernetes_version  v1.32.1
"
    );
    assert!(example.written("kubeconfig").contains("tls-server-name: 10.0.0.20"));
}
