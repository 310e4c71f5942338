//! The end of a cluster: everything of it that is provably ours.

use talmox_pve::id::{NodeName, VmId};

use super::action::{Action, DestroyVm, OwnVm, StopVm};
use super::change::{Change, Class, FieldChange, Finding, Object};
use super::cleaning::Cleaning;
use super::doubt::Doubts;
use super::place::{Found, State, being_made, places};
use super::steps::Steps;
use super::{Plan, destroy_right, preflight, shared};
use crate::desired::Desired;
use crate::observe::World;

/// What else goes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DestroyOptions {
    /// Images of this inventory that nobody is known to need.
    pub images: bool,
    /// The secrets, once the VMs are gone. The plan does not delete them, and finds what speaks against it.
    pub secrets: bool,
}

pub fn destroy(desired: &Desired, world: &World, options: DestroyOptions) -> Plan {
    let places = places(desired, &world.pve);
    let mut plan =
        Plan { cluster: desired.cluster.clone(), changes: vec![], findings: vec![], steps: vec![] };
    let mut steps = Steps::default();
    let mut gone = vec![];
    for placed in &places.nodes {
        match &placed.state {
            State::Ours(found) => {
                gone.push(vm(desired, &placed.own, found, &mut plan, &mut steps));
            }
            State::BeingMade(upid) => plan.findings.push(being_made(&placed.node.name, upid)),
            State::Absent | State::Blocked => {}
        }
    }
    for (own, found) in &places.removed {
        gone.push(vm(desired, own, found, &mut plan, &mut steps));
    }
    plan.findings.extend(places.troubles.iter().cloned());
    plan.findings.extend(shared::spare(desired, &places, options.secrets));
    plan.findings.extend(shared::unnamed(desired, &places));
    plan.findings.extend(destroy_right::check(desired, world, &places));
    let doubts = Doubts { desired, world, places: &places, secrets: options.secrets };
    plan.findings.extend(doubts.all());
    let mut cleaning = Cleaning { desired, world, plan: &mut plan, steps: &mut steps, after: gone };
    cleaning.uploads();
    if options.images {
        cleaning.images();
    }
    plan.changes.sort_by(|a, b| a.object.cmp(&b.object));
    plan.steps = steps.in_order();
    if !plan.steps.is_empty() {
        plan.findings.extend(preflight::lock_finding(&world.pve, &desired.login, false));
    }
    Finding::sort(&mut plan.findings);
    plan
}

fn vm(
    desired: &Desired,
    own: &OwnVm,
    found: &Found<'_>,
    plan: &mut Plan,
    steps: &mut Steps,
) -> super::StepId {
    let name = &own.identity.node;
    let (host, vmid) = (&own.vm.node, own.vm.vmid);
    let fields = vec![
        FieldChange::new("vmid", Some(vmid.to_string()), None),
        FieldChange::new("host", Some(host.to_string()), None),
    ];
    plan.changes.push(Change::planned(Object::Vm(name.clone()), Class::Destroy, fields));
    if found.config.is_protected() {
        let message = format!("its VM {vmid} is protected from being deleted");
        plan.findings.push(Finding::error(name, message).hint(unprotect(host, vmid)));
    }
    let deadline = desired.timeouts.task;
    let stop = Action::StopVm(StopVm { own: own.clone(), deadline });
    let stopped = steps.add(format!("vm/{name}/stop"), Some(name), [], stop);
    let destroy = Action::DestroyVm(DestroyVm { own: own.clone(), deadline });
    steps.add(format!("vm/{name}/destroy"), Some(name), [stopped], destroy)
}

/// How people say that a protected VM may go after all. It is not for us to say.
pub(crate) fn unprotect(host: &NodeName, vmid: VmId) -> String {
    format!("if it is to go all the same, on {host}: qm set {vmid} --protection 0")
}
