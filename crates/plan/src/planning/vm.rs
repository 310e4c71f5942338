//! Planning of VMs: create a VM, resume its creation, or compare it with the inventory.

use talmox_pve_types::config::{VmOptions, drift};
use talmox_pve_types::id::DiskSlot;
use talmox_pve_types::property::HostPci;

use super::builder::Builder;
use super::clone_source::removed_from_template;
use super::placed::{ObservedVm, Placed, VmPresence};
use super::scope::Part;
use super::vm_creation::{created, finish, make};
use super::vm_plan::VmPlan;
use super::{gpu, maintenance_mode, node_chain, replacement, upload_cleanup, vm_drift};
use crate::desired::DesiredNode;
use crate::ownership::Stage;
use crate::plan::{
    Action, Change, Class, FieldChange, Finding, FindingCode, Left, Object, StartVm,
};

pub(super) fn plan(builder: &mut Builder<'_>, placed: &Placed<'_>) -> VmPlan {
    match &placed.state {
        VmPresence::Blocked => {
            tracing::info!(target: "talmox::plan", subject = placed.node.name, "skipped: a finding blocks its VM");
            VmPlan::default()
        }
        VmPresence::Absent => make(builder, placed, None, vec![]),
        VmPresence::BeingMade(upid) => make(builder, placed, Some(upid.clone()), vec![]),
        VmPresence::Owned(found) if found.marker.stage == Stage::Made => {
            let before = builder.changes.len();
            let kept = made(builder, placed, found);
            replacement::plan(builder, placed, found, before, kept)
        }
        VmPresence::Owned(found) => resume(builder, placed, found),
    }
}

/// Resumes the creation of a VM that was never started.
fn resume(builder: &mut Builder<'_>, placed: &Placed<'_>, found: &ObservedVm<'_>) -> VmPlan {
    let node = placed.node;
    if maintenance_mode::lacks_volume(placed) {
        builder.findings.push(maintenance_mode::unfinished(placed));
        return VmPlan::default();
    }
    let device = gpu::device(builder.desired, node, &placed.own.vm.node, &builder.observed.pve);
    let hostpci = match device {
        Ok(device) => device.map(|device| device.hostpci),
        Err(finding) => {
            builder.findings.push(finding);
            return VmPlan::default();
        }
    };
    tracing::info!(
        target: "talmox::plan",
        subject = node.name,
        "skipped: VM {} exists already; its creation resumes after `{}`",
        placed.own.vm.vmid,
        found.marker.stage.as_str(),
    );
    let note = format!("resumes where an earlier run stopped ({})", found.marker.stage.as_str());
    builder.changes.push(created(node, placed, hostpci.as_ref(), Some(&note)));
    let (set, delete) = match found.marker.stage {
        Stage::Clone => {
            let has_cloudinit = found.config.cloudinit().is_some();
            let set = node.vm.after_clone(hostpci.as_ref(), has_cloudinit);
            (set, removed_from_template(node, found.config))
        }
        _ => (changed_since(node, hostpci.as_ref(), found), vec![]),
    };
    let start = finish(builder, placed, None, set, delete);
    VmPlan { runs_after: Some(start), is_fresh: true, is_created: false, is_sound: true }
}

/// The options of an unfinished VM that the inventory has changed since the VM was created. Drives are kept.
fn changed_since(
    node: &DesiredNode,
    hostpci: Option<&HostPci>,
    found: &ObservedVm<'_>,
) -> VmOptions {
    let drifted = drift(&node.vm.desired_options(hostpci), found.config);
    // The last step of the creation sets the start order, if the token may set it.
    let waits = |key: &str| key == "startup" || key == "protection" && node.vm.loses_volume();
    let plain =
        drifted.iter().filter(|one| one.key.parse::<DiskSlot>().is_err() && !waits(&one.key));
    plain.fold(VmOptions::new(), |set, one| set.set(&one.key, &one.desired))
}

/// Compares a finished VM with the inventory, and starts the VM if it is stopped. A stopped VM is changed before its start.
fn made(builder: &mut Builder<'_>, placed: &Placed<'_>, found: &ObservedVm<'_>) -> VmPlan {
    let node = placed.node;
    let before = builder.changes.len();
    upload_cleanup::plan(builder, placed);
    vm_drift::vm(builder, placed, found);
    let is_changed = builder.changes.len() > before;
    let mut plan = VmPlan { runs_after: None, is_fresh: false, is_created: false, is_sound: true };
    if found.seen.is_running {
        if !is_changed {
            tracing::info!(target: "talmox::plan", subject = node.name, "skipped: its VM {} is as desired", placed.own.vm.vmid);
        }
        return plan;
    }
    let object = Object::Vm(node.name.clone());
    let fields = vec![FieldChange::new("status", Some("stopped".into()), Some("running".into()))];
    if !builder.scope.allows(&node.name, Part::Vms) {
        builder.changes.push(Change::left(object, Class::Live, fields, Left::NotSelected));
        return VmPlan::default();
    }
    // Proxmox does not show whether the VM has ever run. Its disks may hold data, so no hint advises to delete the VM.
    let is_left = builder.changes[before..]
        .iter()
        .any(|change| change.left.is_some_and(|left| left != Left::Ignored));
    if is_left && !builder.was_there(&node.name) {
        let message = "the inventory changed since its VM was created, and the VM does not run";
        let hint = format!(
            "VM {} is started without the changes that the plan leaves; undo them in the inventory, or change the VM by hand on \
             {}: qm set {}",
            placed.own.vm.vmid, placed.own.vm.node, placed.own.vm.vmid
        );
        builder
            .findings
            .push(Finding::warning(FindingCode::VmOutdated, &node.name, message).hint(hint));
    }
    builder.changes.push(Change::planned(object, Class::Live, fields));
    let change = builder.node_changes.get_mut(&node.name).and_then(|change| change.vm.take());
    let change = change.unwrap_or_default();
    let changed = node_chain::change_vm(builder, placed, &change, vec![]);
    let deadline = builder.desired.timeouts.task;
    let start = Action::StartVm(StartVm { own: placed.own.clone(), deadline });
    let id = format!("vm/{}/start", node.name);
    plan.runs_after = Some(builder.steps.add(id, Some(&node.name), changed, start));
    plan
}
