//! The plan of `destroy`: stop and destroy all owned VMs of a cluster.

use super::leftover::Leftovers;
use super::placed::{ObservedVm, VmPresence};
use super::placement::{being_made, places};
use super::protection::unprotect;
use super::storage_cleanup::StorageCleanup;
use super::{destroy_rights, preflight, shared_secrets};
use crate::desired::Desired;
use crate::observed::Observed;
use crate::plan::{
    Action, Change, Class, DestroyVm, FieldChange, Finding, FindingCode, Object, OwnVm, Plan,
    StepGraph, StopVm,
};

/// Objects that `destroy` deletes in addition to the VMs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DestroyOptions {
    /// Whether to delete images of this inventory that no other cluster is known to use.
    pub images: bool,
    /// Whether the caller deletes the secrets after the VMs. The plan contains no step for that, only findings about reasons
    /// to keep them.
    pub secrets: bool,
}

pub fn destroy(desired: &Desired, observed: &Observed, options: DestroyOptions) -> Plan {
    let places = places(desired, &observed.pve);
    let mut plan =
        Plan { cluster: desired.cluster.clone(), changes: vec![], findings: vec![], steps: vec![] };
    let mut steps = StepGraph::default();
    let mut gone = vec![];
    for placed in &places.nodes {
        match &placed.state {
            VmPresence::Owned(found) => {
                gone.push(vm(desired, &placed.own, found, &mut plan, &mut steps));
            }
            VmPresence::BeingMade(upid) => plan.findings.push(being_made(&placed.node.name, upid)),
            VmPresence::Absent | VmPresence::Blocked => {}
        }
    }
    for (own, found) in &places.removed {
        gone.push(vm(desired, own, found, &mut plan, &mut steps));
    }
    plan.findings.extend(places.troubles.iter().cloned());
    plan.findings.extend(shared_secrets::spare(desired, &places, options.secrets));
    plan.findings.extend(shared_secrets::unnamed(desired, &places));
    plan.findings.extend(destroy_rights::check(desired, observed, &places));
    let leftovers = Leftovers { desired, observed, places: &places, secrets: options.secrets };
    plan.findings.extend(leftovers.all());
    let mut cleanup =
        StorageCleanup { desired, observed, plan: &mut plan, steps: &mut steps, after: gone };
    cleanup.uploads();
    if options.images {
        cleanup.images();
    }
    plan.changes.sort_by(|a, b| a.object.cmp(&b.object));
    plan.steps = steps.in_order();
    if !plan.steps.is_empty() {
        plan.findings.extend(preflight::lock_finding(&observed.pve, &desired.login, false));
    }
    Finding::sort(&mut plan.findings);
    plan
}

fn vm(
    desired: &Desired,
    own: &OwnVm,
    found: &ObservedVm<'_>,
    plan: &mut Plan,
    steps: &mut StepGraph,
) -> crate::plan::StepId {
    let name = &own.identity.node;
    let (host, vmid) = (&own.vm.node, own.vm.vmid);
    let fields = vec![
        FieldChange::of("vmid", Some(vmid.into()), None),
        FieldChange::new("host", Some(host.to_string()), None),
    ];
    plan.changes.push(Change::planned(Object::Vm(name.clone()), Class::Destroy, fields));
    if found.config.is_protected() {
        let message = format!("its VM {vmid} is protected from deletion");
        plan.findings.push(
            Finding::error(FindingCode::VmProtected, name, message).hint(unprotect(host, vmid)),
        );
    }
    let deadline = desired.timeouts.task;
    let stop = Action::StopVm(StopVm { own: own.clone(), deadline });
    let stopped = steps.add(format!("vm/{name}/stop"), Some(name), [], stop);
    let destroy = Action::DestroyVm(DestroyVm { own: own.clone(), deadline });
    steps.add(format!("vm/{name}/destroy"), Some(name), [stopped], destroy)
}
