//! VMs whose notes a user replaced: drift in `status`, and the exit code of `up`.

use serde_json::Value as Json;
use talmox_pve::api::qemu::{self, Vm};
use talmox_pve::config::{VmChange, VmOptions};
use talmox_pve::id::VmId;

use crate::lab_state::VmState;
use crate::node_life::CreatedCluster;

/// The VM of wk-1 in the lab.
fn vm(created: &CreatedCluster) -> (u32, VmState) {
    let mut vms = created.state.vms().into_iter();
    vms.find(|(_, vm)| vm.config["name"] == "wk-1").unwrap()
}

/// Changes the VM of wk-1 as a user of Proxmox does.
fn edit(created: &CreatedCluster, set: VmOptions) {
    let (vmid, vm) = vm(created);
    let target = Vm::new(&vm.host.parse().unwrap(), VmId::new(vmid).unwrap());
    let request = qemu::set_config(&target, &VmChange { set, ..VmChange::default() });
    created.state.runtime.block_on(created.state.pve.send(&request)).unwrap();
}

/// Drift of wk-1 in the output of `status`.
fn drift(created: &CreatedCluster) -> Json {
    let run = created.run("status --format json");
    let status: Json = serde_json::from_str(&run.stdout).unwrap();
    let nodes = status["nodes"].as_array().unwrap();
    nodes.iter().find(|node| node["name"] == "wk-1").unwrap()["drift"].clone()
}

#[test]
fn a_lost_marker_is_drift_and_blocks_only_its_node() {
    let created = CreatedCluster::up("", "");
    let lost = serde_json::json!(["vm notes no marker → marker"]);
    edit(&created, VmOptions::new().description("mine"));
    assert_eq!(drift(&created), lost);
    created.fine("up --yes");
    assert_eq!(drift(&created), serde_json::json!([]));
    let notes = vm(&created).1.config["description"].clone();
    assert!(notes.contains("talmox/1 cluster=") && notes.contains("mine"), "{notes}");

    // Without its tags, the VM is not provably the VM of the node.
    edit(&created, VmOptions::new().description("mine").set("tags", "mine"));
    let before = vm(&created);
    assert_eq!(drift(&created), lost);
    created.fails("up --yes", 3, &["vm-unproven"]);
    assert_eq!(vm(&created), before);
}
