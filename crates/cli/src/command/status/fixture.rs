//! Values for tests of the status output.

use talmox_engine::status::{Known, NodeRole, NodeStatus, Status, VmState};

pub(super) fn why() -> String {
    "no such VM".to_owned()
}

/// Node without Talos and without a known address.
pub(super) fn node(name: &str, vm: VmState) -> NodeStatus {
    NodeStatus {
        name: name.to_owned(),
        role: NodeRole::Worker,
        vmid: None,
        address: Known::Unknown(why()),
        vm,
        talos: None,
        kubernetes: None,
        etcd: None,
        drift: vec![],
    }
}

pub(super) fn status(nodes: Vec<NodeStatus>) -> Status {
    Status {
        cluster: "dev".to_owned(),
        kubernetes: Known::Unknown("no Kubernetes".to_owned()),
        nodes,
        unreachable: vec![],
        authorities: vec![],
        drift: vec![],
        unknown_nodes: vec![],
        health: vec![],
        errors: vec![],
    }
}
