//! Trace events about the decisions of a plan, in the words that the plan shows.

use super::placed::{Placed, VmPresence};
use crate::plan::{Plan, Step, show};

/// Reports where the VM of a node is created, and whether the inventory or talmox decided it.
pub(super) fn placement(placed: &Placed<'_>) {
    match placed.state {
        VmPresence::Absent => new_vm(placed),
        VmPresence::BeingMade(_) => tracing::info!(
            target: "talmox::plan",
            subject = placed.node.name,
            "placed: a task of an earlier run creates VM {} on {}",
            placed.own.vm.vmid,
            placed.own.vm.node,
        ),
        // The comparison of an owned VM reports its decisions, and a finding reports why a VM is blocked.
        VmPresence::Owned(_) | VmPresence::Blocked => {}
    }
}

fn new_vm(placed: &Placed<'_>) {
    let by = |is_set: bool| if is_set { "set in the inventory" } else { "chosen by talmox" };
    let (vmid, host) = (by(placed.node.vmid.is_some()), by(placed.node.host.is_some()));
    let vm = &placed.own.vm;
    tracing::info!(
        target: "talmox::plan",
        subject = placed.node.name,
        "placed: new VM {} (vmid {vmid}) on {} (host {host})",
        vm.vmid,
        vm.node,
    );
}

/// Reports steps that the plan does not contain, each with the reason.
pub(super) fn skipped_steps(steps: &[Step], why: &str) {
    for step in steps {
        tracing::info!(target: "talmox::plan", subject = step.id.as_str(), "skipped: {why}");
    }
}

/// Reports every change that no step of the finished plan makes. The report is made at the end, because planning replaces the
/// reason of a change, and merges changes.
pub(super) fn open_changes(plan: &Plan) {
    for (change, why) in show::open_changes(plan) {
        tracing::info!(target: "talmox::plan", subject = change, "left: {why}");
    }
}
