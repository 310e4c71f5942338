//! The end of a cluster: everything of it that is provably ours.

use super::action::{Action, DestroyVm, OwnVm, StopVm};
use super::change::{Change, Class, FieldChange, Finding, Object};
use super::cleaning::Cleaning;
use super::place::{Found, State, places};
use super::steps::Steps;
use super::{Plan, stranger};
use crate::desired::Desired;
use crate::observe::World;

/// What else goes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DestroyOptions {
    /// Images of this inventory that nobody is known to need.
    pub images: bool,
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
                gone.push(vm(desired, &placed.own, found, &mut plan.changes, &mut steps));
            }
            State::BeingMade(upid) => plan.findings.push(
                Finding::error(&placed.node.name, format!("its VM is just being made ({upid})"))
                    .hint("wait for the task, and run this again"),
            ),
            State::Absent | State::Blocked => {}
        }
    }
    for (own, found) in &places.removed {
        gone.push(vm(desired, own, found, &mut plan.changes, &mut steps));
    }
    plan.findings.extend(places.troubles.iter().cloned());
    let missing = stranger::missing(desired, &places);
    plan.findings.extend(stranger::warnings(desired, &world.pve, missing));
    let mut cleaning = Cleaning { desired, world, plan: &mut plan, steps: &mut steps, after: gone };
    cleaning.uploads();
    if options.images {
        cleaning.images();
    }
    plan.changes.sort_by(|a, b| a.object.cmp(&b.object));
    plan.steps = steps.in_order();
    plan
}

fn vm(
    desired: &Desired,
    own: &OwnVm,
    found: &Found<'_>,
    changes: &mut Vec<Change>,
    steps: &mut Steps,
) -> super::StepId {
    let name = &own.identity.node;
    let fields = vec![
        FieldChange::new("vmid", Some(own.vm.vmid.to_string()), None),
        FieldChange::new("host", Some(own.vm.node.to_string()), None),
    ];
    changes.push(Change::planned(Object::Vm(name.clone()), Class::Destroy, fields));
    let deadline = desired.timeouts.task;
    let stop = Action::StopVm(StopVm { own: own.clone(), deadline });
    let stopped = steps.add(format!("vm/{name}/stop"), Some(name), [], stop);
    let unprotect = found.config.is_protected();
    let destroy = Action::DestroyVm(DestroyVm { own: own.clone(), unprotect, deadline });
    steps.add(format!("vm/{name}/destroy"), Some(name), [stopped], destroy)
}
