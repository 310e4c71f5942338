//! `examples/ubuntu-cluster`: seven Ubuntu machines that are configured by cloud-init.

use aws_lc_rs::digest::{SHA256, digest};
use serde_json::json;
use talmox_pve::api::mapping;
use talmox_pve::api::qemu::{self, Vm};
use talmox_pve::id::VmId;

use super::{Derived, Example, assert_vm, notes};

/// Vmid, name, address and derived values of each node.
const NODES: [(u32, &str, &str, Derived); 7] = [
    (
        220,
        "k8s-controller1",
        "192.168.1.231",
        Derived { uuid: "494ea3fb-1f17-5b4a-89c9-b15f8bfe7b2b", mac: "02:E2:4D:46:3B:2D" },
    ),
    (
        221,
        "k8s-controller2",
        "192.168.1.232",
        Derived { uuid: "ee11cea9-128c-5985-ad49-4b0fa5da4844", mac: "02:0E:F3:23:A7:0B" },
    ),
    (
        222,
        "k8s-controller3",
        "192.168.1.233",
        Derived { uuid: "fbcf9270-cf6a-5a0f-b031-79e4c236b348", mac: "02:04:AE:D2:EE:13" },
    ),
    (
        223,
        "k8s-worker1",
        "192.168.1.241",
        Derived { uuid: "f0634f34-e473-596e-a809-998c5b332212", mac: "02:A1:77:59:D0:AA" },
    ),
    (
        224,
        "k8s-worker2",
        "192.168.1.242",
        Derived { uuid: "9fcbcd80-30bd-5c02-b4af-d69d5ed2eede", mac: "02:55:93:20:09:28" },
    ),
    (
        225,
        "k8s-worker3",
        "192.168.1.243",
        Derived { uuid: "b9140369-ba1b-5d14-b9fe-f5a575b3672f", mac: "02:26:BA:D6:CD:32" },
    ),
    (
        226,
        "k8s-worker4",
        "192.168.1.244",
        Derived { uuid: "8c6c33ae-43d6-5599-98d9-32218ed59be6", mac: "02:01:B7:00:40:46" },
    ),
];

/// User data of cloud-init. NAME stands for the node name.
const USER_DATA: &str = "\
#cloud-config
hostname: NAME
users:
  - name: ops
    groups:
      - sudo
    shell: /bin/bash
    sudo: ALL=(ALL) NOPASSWD:ALL
    ssh_authorized_keys:
      - ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIExampleExampleExampleExampleExampleExample ops
package_update: true
package_upgrade: true
packages:
  - qemu-guest-agent
  - open-iscsi
  - nfs-common
write_files:
  - path: /etc/sysctl.d/90-kubernetes.conf
    content: |
      net.ipv4.ip_forward = 1
    permissions: \"0644\"
runcmd:
  - systemctl enable --now qemu-guest-agent
";

/// Network config of cloud-init. MAC and ADDRESS stand for the values of the node.
const NETWORK: &str = "\
version: 1
config:
    - type: physical
      name: eth0
      mac_address: MAC
      subnets:
        - type: static
          address: ADDRESS
          netmask: 255.255.255.0
          gateway: 192.168.1.1
    - type: nameserver
      address:
        - 192.168.1.1
";

#[test]
fn ubuntu_cluster_matches_its_inventory() {
    let example = Example::up("ubuntu-cluster", &[]);
    machines(&example);
    files(&example);
    guests(&example);
    outputs(&example);
}

fn machines(example: &Example) {
    let vms = example.lab_state.vms();
    assert_eq!(vms.keys().copied().collect::<Vec<_>>(), (220..=226).collect::<Vec<_>>());
    for (vmid, name, address, Derived { uuid, mac }) in NODES {
        let vm = &vms[&vmid];
        assert_eq!((vm.host.as_str(), &vm.pool), ("pve2", &None));
        let (cores, memory, disk) = if vmid < 223 { (2, 4096, 30) } else { (4, 8192, 125) };
        // The cloud-init volume is kept, because it is read at every boot.
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
             scsi30: local-lvm:vm-{vmid}-disk-2,size=4M
             scsihw: virtio-scsi-pci
             serial0: socket
             smbios1: uuid={uuid}
             tags: talmox;ubuntu-cluster"
        );
        if vmid == 226 {
            lines.push_str("\nhostpci0: mapping=pci-pve2-0000-28-00-0,pcie=1,x-vga=1");
        }
        // The notes contain the hash of the cloud-init data.
        let network = NETWORK.replace("MAC", &mac.to_lowercase()).replace("ADDRESS", address);
        let given = USER_DATA.replace("NAME", name) + &network;
        let hash = digest(&SHA256, given.as_bytes());
        let data: String = hash.as_ref()[..6].iter().map(|byte| format!("{byte:02x}")).collect();
        let notes = format!("{} data={data}", notes("ubuntu-cluster", name));
        assert_vm(vm, &notes, &lines);
    }
}

fn files(example: &Example) {
    let lab_state = &example.lab_state;
    // The file name of the image has the extension of its format. The uploaded files are deleted.
    let files = lab_state.volumes("pve2", "local");
    let files: Vec<&String> = files.keys().collect();
    assert_eq!(files.len(), 1, "{files:?}");
    let start = "local:import/image-ubuntu-24.04-server-cloudimg-amd64-";
    assert!(
        files[0].starts_with(start)
            && files[0].rsplit_once('.').is_some_and(|(_, end)| end == "qcow2"),
        "{files:?}"
    );
    let host = "pve2".parse().unwrap();
    let known =
        lab_state.runtime.block_on(lab_state.pve.send(&mapping::list(Some(&host)))).unwrap();
    assert_eq!(known.len(), 1, "{known:?}");
    assert_eq!(
        known[0].mapped.devices[0].to_string(),
        "node=pve2,path=0000:28:00.0,id=10de:2204,iommugroup=1,subsystem-id=1043:87d9"
    );
}

/// Asserts the answers of the guest agents.
fn guests(example: &Example) {
    let lab_state = &example.lab_state;
    for (vmid, name, address, Derived { mac, .. }) in NODES {
        let vm = Vm::new(&"pve2".parse().unwrap(), VmId::new(vmid).unwrap());
        let reported =
            lab_state.runtime.block_on(lab_state.pve.send(&qemu::agent_interfaces(&vm))).unwrap();
        let own: Vec<String> = reported
            .0
            .iter()
            .filter(|one| one.mac.is_some_and(|known| known.to_string() == mac))
            .flat_map(|one| &one.addresses)
            .map(|one| format!("{}/{}", one.ip, one.prefix.unwrap()))
            .collect();
        assert_eq!(own, [format!("{address}/24")], "{name}: {reported:?}");
    }
}

fn outputs(example: &Example) {
    let all = example.output_json();
    assert_eq!(all["cluster"], "ubuntu-cluster");
    // talmox does not manage Kubernetes on these machines.
    for key in ["endpoint", "vip", "talos_version", "kubernetes_version"] {
        assert_eq!(all[key], json!(null), "{key}");
    }
    assert_eq!(
        all["nodes"]["k8s-worker4"],
        json!({
            "vmid": 226,
            "vm_name": "k8s-worker4",
            "node": "pve2",
            "ip_address": "192.168.1.244",
            "mac_address": "02:01:B7:00:40:46",
            "role": "worker",
            "talos_version": null,
            "kubernetes_version": null,
            "from_inventory": [],
        })
    );
    assert_eq!(
        example.output(""),
        "\
NODE             ROLE          VMID  HOST  ADDRESS        MAC
k8s-controller1  controlplane  220   pve2  192.168.1.231  02:E2:4D:46:3B:2D
k8s-controller2  controlplane  221   pve2  192.168.1.232  02:0E:F3:23:A7:0B
k8s-controller3  controlplane  222   pve2  192.168.1.233  02:04:AE:D2:EE:13
k8s-worker1      worker        223   pve2  192.168.1.241  02:A1:77:59:D0:AA
k8s-worker2      worker        224   pve2  192.168.1.242  02:55:93:20:09:28
k8s-worker3      worker        225   pve2  192.168.1.243  02:26:BA:D6:CD:32
k8s-worker4      worker        226   pve2  192.168.1.244  02:01:B7:00:40:46
"
    );
    let node = example.output("k8s-worker1");
    assert!(node.contains("ip_address          192.168.1.241\n"), "{node}");
    assert!(node.contains("talos_version       -\n"), "{node}");
    // No client files are written.
    let folder = example.cluster.folder.path().join("inventory/ubuntu-cluster");
    assert!(!folder.join("kubeconfig").exists() && !folder.join("talosconfig").exists());
}
