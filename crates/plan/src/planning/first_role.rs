//! VMs that were created as workers, for nodes that are control planes now. The notes of such a VM would say that it never had etcd
//! data; a bootstrap relies on them when the VM cannot be asked. So it does not become a control plane.

use super::builder::Builder;
use super::placed::VmPresence;
use crate::ownership::{FirstRole, Stage};
use crate::plan::{Finding, FindingCode};

pub(super) fn check(builder: &mut Builder<'_>) {
    for placed in builder.places.nodes.iter().filter(|placed| placed.node.is_control_plane) {
        let VmPresence::Owned(found) = &placed.state else { continue };
        // The notes of a VM that was never started are written again before its first start.
        let is_started = found.marker.stage == Stage::Made;
        if !is_started || found.marker.first_role != Some(FirstRole::Worker) {
            continue;
        }
        let vmid = placed.own.vm.vmid;
        let message =
            format!("VM {vmid} was created as a worker, and cannot become a control plane");
        let hint = "move the node back to `workers:`, and add a control plane with another name";
        builder
            .findings
            .push(Finding::error(FindingCode::RoleChanged, &placed.node.name, message).hint(hint));
    }
}
