//! Nodes whose VM was created for another role than the role in the inventory.
//!
//! The marker of a VM says whether the VM was created as a worker. Such a VM never had etcd data, and a bootstrap relies on
//! that if the VM does not answer. A control plane that becomes a worker would keep its etcd data and its etcd member. So a
//! VM keeps its role, and a node with another role gets a new VM.

use super::builder::Builder;
use super::placed::{Placed, VmPresence};
use crate::desired::DesiredNode;
use crate::ownership::{FirstRole, Marker, Stage};
use crate::plan::{FieldChange, Finding, FindingCode};

/// The change of the role of a node. None if its VM was created for the role in the inventory.
pub(super) fn change(node: &DesiredNode, marker: &Marker) -> Option<FieldChange> {
    // The marker of a VM that was never started is written again before its first start.
    if !node.is_talos || marker.stage != Stage::Made {
        return None;
    }
    let (old, new) = match (marker.first_role?, node.is_control_plane) {
        (FirstRole::Worker, true) => ("worker", "controlplane"),
        (FirstRole::ControlPlane, false) => ("controlplane", "worker"),
        (FirstRole::Worker, false) | (FirstRole::ControlPlane, true) => return None,
    };
    Some(FieldChange::new("role", Some(old.to_owned()), Some(new.to_owned())))
}

/// Errors that prevent a bootstrap of etcd: workers whose VM was a control plane and may have etcd data.
pub(super) fn keep_from_bootstrap(builder: &Builder<'_>) -> Vec<Finding> {
    let former = builder.places.nodes.iter().filter(|placed| is_former_control_plane(placed));
    let finding = |placed: &Placed<'_>| {
        let message = format!(
            "etcd is not bootstrapped: VM {} was created as a control plane and may have etcd data, and the node is a worker now",
            placed.own.vm.vmid
        );
        let hint = "move the node back to `controlplane:`, then run the same command; the role can be changed once etcd answers";
        Finding::error(FindingCode::RoleChanged, &placed.node.name, message).hint(hint)
    };
    former.map(finding).collect()
}

fn is_former_control_plane(placed: &Placed<'_>) -> bool {
    let VmPresence::Owned(found) = &placed.state else { return false };
    !placed.node.is_control_plane && change(placed.node, &found.marker).is_some()
}
