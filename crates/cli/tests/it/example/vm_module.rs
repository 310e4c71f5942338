//! `examples/vm-module`: clones of a template, one with a GPU, with the names of a Terraform module.

use serde_json::json;
use talmox_pve::api::mapping;

use super::{Derived, Example, assert_vm, setting, talos_notes};

const CONTROL: Derived =
    Derived { uuid: "bbec2c3c-49c6-5f68-8cfd-cf1009e9f850", mac: "02:76:6F:60:63:63" };
const GPU: Derived =
    Derived { uuid: "3e0eb996-49fa-52eb-bf16-7d7b4c1c725f", mac: "02:C5:16:08:27:F1" };

#[test]
fn vm_module_matches_its_inventory() {
    let example = Example::up("vm-module", &["template create --yes"]);
    machines(&example);
    template(&example);
    device(&example);
    nodes(&example);
    outputs(&example);
}

fn machines(example: &Example) {
    let vms = example.lab_state.vms();
    assert_eq!(vms.keys().copied().collect::<Vec<_>>(), [100, 103, 9000]);
    let control = (100, "k3s-dev-control-1", "10.0.20.11", (4, 8192, 40), CONTROL);
    let gpu = (103, "k3s-dev-gpu-1", "10.0.20.21", (8, 16384, 80), GPU);
    for (vmid, name, address, (cores, memory, disk), Derived { uuid, mac }) in [control, gpu] {
        let vm = &vms[&vmid];
        assert_eq!((vm.host.as_str(), &vm.pool), ("pve", &None));
        let mut lines = format!(
            "balloon: 0
             bios: ovmf
             boot: order=scsi0
             cores: {cores}
             cpu: host
             efidisk0: tank:vm-{vmid}-disk-0,efitype=4m,pre-enrolled-keys=0,size=4M
             ide2: tank:vm-{vmid}-cloudinit,media=cdrom
             ipconfig0: ip={address}/24,gw=10.0.20.1
             machine: q35
             memory: {memory}
             name: {name}
             nameserver: 10.0.20.1
             net0: virtio={mac},bridge=vmbr0
             onboot: 1
             ostype: l26
             scsi0: tank:vm-{vmid}-disk-1,size={disk}G
             scsihw: virtio-scsi-pci
             serial0: socket
             smbios1: uuid={uuid}
             tags: k3s-dev;talmox"
        );
        if vmid == 103 {
            lines.push_str("\nhostpci0: mapping=pci-pve-0000-01-00-0,pcie=1");
        }
        assert_vm(vm, &talos_notes("k3s-dev", name), &lines);
    }
}

/// The template has no machine identity, and belongs to no cluster.
fn template(example: &Example) {
    let template = &example.lab_state.vms()[&9000];
    assert!(!template.is_running);
    assert_eq!(template.config["name"], "talos-v1.12.4-base");
    assert_eq!(template.config["template"], "1");
    assert!(!template.config["description"].contains("talmox/1"));
    for key in ["net0", "ipconfig0", "ide2", "tags", "hostpci0", "onboot"] {
        assert_eq!(template.config.get(key), None, "{key}");
    }
    assert!(template.config["scsi0"].starts_with("tank:base-9000-disk-"), "{template:?}");
}

fn device(example: &Example) {
    let lab_state = &example.lab_state;
    let host = "pve".parse().unwrap();
    let known =
        lab_state.runtime.block_on(lab_state.pve.send(&mapping::list(Some(&host)))).unwrap();
    let known: Vec<(String, String)> =
        known.iter().map(|one| (one.id.to_string(), one.mapped.devices[0].to_string())).collect();
    let expected = (
        "pci-pve-0000-01-00-0",
        "node=pve,path=0000:01:00.0,id=10de:2204,iommugroup=1,subsystem-id=1043:87d9",
    );
    assert_eq!(known, [(expected.0.to_owned(), expected.1.to_owned())]);
}

fn nodes(example: &Example) {
    let lab_state = &example.lab_state;
    let control = lab_state.node("10.0.20.11", true);
    let gpu = lab_state.node("10.0.20.21", false);
    for (node, name, address, kind) in [
        (&control, "k3s-dev-control-1", "10.0.20.11/24", "controlplane"),
        (&gpu, "k3s-dev-gpu-1", "10.0.20.21/24", "worker"),
    ] {
        assert_eq!((node.hostname.as_str(), node.version.as_str()), (name, "v1.12.4"));
        assert_eq!(node.stage, "running");
        assert_eq!(node.addresses.iter().collect::<Vec<_>>(), [address]);
        let has = |path: &str| setting(node, path).unwrap();
        assert_eq!(has("machine/type"), kind);
        assert_eq!(has("cluster/clusterName"), "k3s-dev");
        assert_eq!(has("cluster/controlPlane/endpoint"), "https://10.0.20.11:6443");
        assert_eq!(has("machine/network/interfaces/0/routes/0/gateway"), "10.0.20.1");
    }
    let members: Vec<&str> = control.etcd.values().map(String::as_str).collect();
    assert_eq!(members, ["k3s-dev-control-1"]);
    let known = lab_state.kubernetes("10.0.20.11");
    let known: Vec<_> = known.iter().map(|node| (node.name.as_str(), node.is_ready)).collect();
    assert_eq!(known, [("k3s-dev-control-1", true), ("k3s-dev-gpu-1", true)]);
}

fn outputs(example: &Example) {
    let all = example.output_json();
    assert_eq!(all["cluster"], "k3s-dev");
    assert_eq!(all["vip"], json!(null));
    assert_eq!(
        all["nodes"]["k3s-dev-gpu-1"],
        json!({
            "vmid": 103,
            "vm_name": "k3s-dev-gpu-1",
            "node": "pve",
            "ip_address": "10.0.20.21",
            "mac_address": "02:C5:16:08:27:F1",
            "role": "worker",
            "talos_version": "v1.12.4",
            "kubernetes_version": "v1.35.4",
            "from_inventory": [],
        })
    );
    assert_eq!(
        example.output(""),
        "\
NODE               ROLE          VMID  HOST  ADDRESS     MAC                TALOS    KUBERNETES
k3s-dev-control-1  controlplane  100   pve   10.0.20.11  02:76:6F:60:63:63  v1.12.4  v1.35.4
k3s-dev-gpu-1      worker        103   pve   10.0.20.21  02:C5:16:08:27:F1  v1.12.4  v1.35.4
"
    );
    assert_eq!(example.output("k3s-dev-control-1.vm_name"), "k3s-dev-control-1\n");
}
