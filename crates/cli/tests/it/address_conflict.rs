//! `talmox check --live` finds VMs that have an address of the inventory.

use crate::lab::{IN_FILE, ServedLab};
use crate::support::Cluster;

const SCENARIO: &str = "\
nodes: [{name: pve}]
vms:
  - vmid: 205
    status: running
    config: {name: mail, memory: 512, ipconfig0: 'ip=10.0.0.11/16,gw=10.0.0.1'}
  - vmid: 206
    status: running
    config: {name: dns, memory: 512, agent: 1, net0: 'virtio=BC:24:11:00:00:64,bridge=vmbr0'}
    guest:
      hostname: dns
      interfaces: [{name: eth0, mac: 'BC:24:11:00:00:64', addresses: [10.0.0.21/16]}]
";

#[test]
fn addresses_in_configs_and_of_guest_agents_are_found() {
    let cluster = Cluster::new();
    cluster.folder.write("lab.yaml", SCENARIO);
    let _lab = ServedLab::in_file(&cluster, "--scenario lab.yaml");
    let run = cluster.run(&format!("check --live {IN_FILE}"));
    assert_eq!(run.code, 1, "{}{}", run.stdout, run.stderr);
    for words in [
        "cp-1: its address 10.0.0.11 is in use: VM 205 (mail) has it in its config",
        "wk-1: its address 10.0.0.21 is in use: the guest agent of VM 206 (dns) reports it",
    ] {
        assert!(run.stderr.contains(words), "`{words}` is not in\n{}", run.stderr);
    }
}
