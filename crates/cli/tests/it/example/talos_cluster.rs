//! `examples/talos-cluster`: seven nodes, two images, a GPU, patches by role and class.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::json;
use talmox_pve::api::mapping;

use super::{Derived, Example, assert_vm, setting, talos_notes};
use crate::lab_state::NodeState;

const BASE: &str = "88d1f7a5c4f1d3aba7df787c448c1d3d008ed29cfb34af53fa0df4336a56040b";
const GPU: &str = "901b9afcf2f7eda57991690fc5ca00414740cc4ee4ad516109bcc58beff1b829";

/// Vmid, name, address and derived values of each node.
const NODES: [(u32, &str, &str, Derived); 7] = [
    (
        200,
        "k8s-controller1",
        "192.168.1.211",
        Derived { uuid: "494ea3fb-1f17-5b4a-89c9-b15f8bfe7b2b", mac: "02:E2:4D:46:3B:2D" },
    ),
    (
        201,
        "k8s-controller2",
        "192.168.1.212",
        Derived { uuid: "ee11cea9-128c-5985-ad49-4b0fa5da4844", mac: "02:0E:F3:23:A7:0B" },
    ),
    (
        202,
        "k8s-controller3",
        "192.168.1.213",
        Derived { uuid: "fbcf9270-cf6a-5a0f-b031-79e4c236b348", mac: "02:04:AE:D2:EE:13" },
    ),
    (
        203,
        "k8s-worker1",
        "192.168.1.221",
        Derived { uuid: "f0634f34-e473-596e-a809-998c5b332212", mac: "02:A1:77:59:D0:AA" },
    ),
    (
        204,
        "k8s-worker2",
        "192.168.1.222",
        Derived { uuid: "9fcbcd80-30bd-5c02-b4af-d69d5ed2eede", mac: "02:55:93:20:09:28" },
    ),
    (
        205,
        "k8s-worker3",
        "192.168.1.223",
        Derived { uuid: "b9140369-ba1b-5d14-b9fe-f5a575b3672f", mac: "02:26:BA:D6:CD:32" },
    ),
    (
        206,
        "k8s-worker4",
        "192.168.1.224",
        Derived { uuid: "8c6c33ae-43d6-5599-98d9-32218ed59be6", mac: "02:01:B7:00:40:46" },
    ),
];

#[test]
fn talos_cluster_matches_its_inventory() {
    let example = Example::up("talos-cluster", &[]);
    machines(&example);
    device(&example);
    nodes(&example);
    outputs(&example);
}

fn machines(example: &Example) {
    let vms = example.lab_state.vms();
    assert_eq!(vms.keys().copied().collect::<Vec<_>>(), (200..=206).collect::<Vec<_>>());
    for (vmid, name, _, Derived { uuid, mac }) in NODES {
        let vm = &vms[&vmid];
        assert_eq!((vm.host.as_str(), &vm.pool), ("pve", &None));
        let (cores, memory, disk) = if vmid < 203 { (2, 4096, 30) } else { (4, 8192, 125) };
        let mut lines = format!(
            "agent: enabled=1
             balloon: 0
             bios: ovmf
             boot: order=scsi0
             cores: {cores}
             cpu: host
             efidisk0: local-lvm:vm-{vmid}-disk-0,efitype=4m,pre-enrolled-keys=0,size=4M
             machine: q35
             memory: {memory}
             name: {name}
             net0: virtio={mac},bridge=vmbr0
             numa: 0
             onboot: 1
             ostype: l26
             protection: 0
             scsi0: local-lvm:vm-{vmid}-disk-1,size={disk}G
             scsihw: virtio-scsi-pci
             serial0: socket
             smbios1: uuid={uuid}
             tags: talmox;talos-cluster"
        );
        if vmid == 206 {
            lines.push_str("\nhostpci0: mapping=pci-pve-0000-28-00-0,pcie=1");
        }
        assert_vm(vm, &talos_notes("talos-cluster", name), &lines);
    }
    let files = example.lab_state.volumes("pve", "local");
    let files: Vec<&str> = files.keys().map(String::as_str).collect();
    assert_eq!(
        files,
        [
            "local:import/talos-v1.12.4-nocloud-amd64-88d1f7a5c4f1d3ab.qcow2",
            "local:import/talos-v1.12.4-nocloud-amd64-901b9afcf2f7eda5.qcow2",
        ]
    );
}

/// A token can assign a PCI device only through a mapping, so `up` creates a mapping for the address.
fn device(example: &Example) {
    let lab_state = &example.lab_state;
    let host = "pve".parse().unwrap();
    let known =
        lab_state.runtime.block_on(lab_state.pve.send(&mapping::list(Some(&host)))).unwrap();
    assert_eq!(known.len(), 1, "{known:?}");
    assert_eq!(known[0].id.to_string(), "pci-pve-0000-28-00-0");
    assert_eq!(
        known[0].mapped.devices.iter().map(ToString::to_string).collect::<Vec<_>>(),
        ["node=pve,path=0000:28:00.0,id=10de:2204,iommugroup=1,subsystem-id=1043:87d9"]
    );
}

fn nodes(example: &Example) {
    let nodes: BTreeMap<&str, NodeState> = NODES
        .iter()
        .map(|(vmid, name, address, _)| (*name, example.lab_state.node(address, *vmid < 203)))
        .collect();
    let members: BTreeSet<&str> = ["k8s-controller1", "k8s-controller2", "k8s-controller3"].into();
    let ids: Vec<u64> = nodes["k8s-controller1"].etcd.keys().copied().collect();
    let mut holders = vec![];
    for (vmid, name, address, _) in NODES {
        let node = &nodes[name];
        assert_eq!((node.hostname.as_str(), node.version.as_str()), (name, "v1.12.4"));
        assert_eq!(node.stage, "running");
        let mut addresses = node.addresses.clone();
        if addresses.remove("192.168.1.210/32") {
            holders.push(name);
        }
        assert_eq!(addresses.iter().collect::<Vec<_>>(), [&format!("{address}/24")]);
        image(node, vmid == 206);
        settings(node, vmid);
        if vmid < 203 {
            assert_eq!(node.etcd.values().map(String::as_str).collect::<BTreeSet<_>>(), members);
            assert_eq!(node.etcd.keys().copied().collect::<Vec<_>>(), ids, "one cluster");
        }
    }
    assert_eq!(holders.len(), 1, "one node holds the VIP: {holders:?}");
    assert!(members.contains(holders[0]), "{holders:?}");
    let known = example.lab_state.kubernetes("192.168.1.210");
    let names: Vec<&str> = known.iter().map(|node| node.name.as_str()).collect();
    assert_eq!(names, NODES.map(|(_, name, ..)| name));
    for node in known {
        assert!(!node.is_ready && node.reason.contains("cni plugin not initialized"), "{node:?}");
    }
}

fn image(node: &NodeState, has_gpu: bool) {
    let schematic = if has_gpu { GPU } else { BASE };
    assert_eq!(node.extensions["schematic"], schematic);
    let mut names = vec!["iscsi-tools"];
    if has_gpu {
        names.extend(["nvidia-container-toolkit-production"]);
        names.extend(["nvidia-open-gpu-kernel-modules-production"]);
    }
    names.extend(["qemu-guest-agent", "schematic", "util-linux-tools"]);
    assert_eq!(node.extensions.keys().map(String::as_str).collect::<Vec<_>>(), names);
    assert_eq!(
        setting(node, "machine/install/image").unwrap(),
        format!("factory.talos.dev/nocloud-installer/{schematic}:v1.12.4")
    );
}

fn settings(node: &NodeState, vmid: u32) {
    let has = |path: &str| setting(node, path).unwrap();
    assert_eq!(has("machine/type"), if vmid < 203 { "controlplane" } else { "worker" });
    assert_eq!(has("cluster/clusterName"), "talos-cluster");
    assert_eq!(has("cluster/controlPlane/endpoint"), "https://192.168.1.210:6443");
    assert_eq!(has("cluster/network/cni/name"), "none");
    assert_eq!(has("cluster/proxy/disabled"), "true");
    let vip = setting(node, "machine/network/interfaces/0/vip/ip");
    assert_eq!(vip.as_deref(), (vmid < 203).then_some("192.168.1.210"));
    let is_labelled = node.config.contains("node.longhorn.io/create-default-disk: config");
    assert_eq!(is_labelled, vmid >= 203);
    let modules = |count: usize| -> Vec<String> {
        (0..count).map(|at| has(&format!("machine/kernel/modules/{at}/name"))).collect()
    };
    let longhorn = ["nbd", "iscsi_tcp", "iscsi_generic", "configfs"];
    let nvidia = ["nvidia", "nvidia_uvm", "nvidia_drm", "nvidia_modeset"];
    match vmid {
        206 => assert_eq!(modules(8), [longhorn, nvidia].concat()),
        203.. => assert_eq!(modules(4), longhorn),
        _ => assert_eq!(setting(node, "machine/kernel/modules"), None),
    }
    let after = if vmid == 206 { 8 } else { 4 };
    assert_eq!(setting(node, &format!("machine/kernel/modules/{after}")), None);
}

fn outputs(example: &Example) {
    let all = example.output_json();
    assert_eq!(all["endpoint"], "https://192.168.1.210:6443");
    assert_eq!(all["vip"], "192.168.1.210");
    assert_eq!(all["talos_version"], "v1.12.4");
    // This is the newest Kubernetes version that the Talos version supports.
    assert_eq!(all["kubernetes_version"], "v1.35.4");
    assert_eq!(
        all["nodes"]["k8s-worker4"],
        json!({
            "vmid": 206,
            "vm_name": "k8s-worker4",
            "node": "pve",
            "ip_address": "192.168.1.224",
            "mac_address": "02:01:B7:00:40:46",
            "role": "worker",
            "talos_version": "v1.12.4",
            "kubernetes_version": "v1.35.4",
            "from_inventory": [],
        })
    );
    assert_eq!(
        example.output(""),
        "\
NODE             ROLE          VMID  HOST  ADDRESS        MAC                TALOS    KUBERNETES
k8s-controller1  controlplane  200   pve   192.168.1.211  02:E2:4D:46:3B:2D  v1.12.4  v1.35.4
k8s-controller2  controlplane  201   pve   192.168.1.212  02:0E:F3:23:A7:0B  v1.12.4  v1.35.4
k8s-controller3  controlplane  202   pve   192.168.1.213  02:04:AE:D2:EE:13  v1.12.4  v1.35.4
k8s-worker1      worker        203   pve   192.168.1.221  02:A1:77:59:D0:AA  v1.12.4  v1.35.4
k8s-worker2      worker        204   pve   192.168.1.222  02:55:93:20:09:28  v1.12.4  v1.35.4
k8s-worker3      worker        205   pve   192.168.1.223  02:26:BA:D6:CD:32  v1.12.4  v1.35.4
k8s-worker4      worker        206   pve   192.168.1.224  02:01:B7:00:40:46  v1.12.4  v1.35.4
"
    );
}
