//! The end of a cluster: everything of it that is provably ours.

use std::collections::BTreeSet;

use talmox_pve::id::VolumeId;

use super::Plan;
use super::action::{Action, DeleteImage, DestroyVm, OwnVm, StopVm};
use super::change::{Change, Class, FieldChange, Finding, Object};
use super::place::{Found, State, places};
use super::steps::Steps;
use crate::desired::Desired;
use crate::observe::World;

/// What else goes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DestroyOptions {
    /// Images that no node of another inventory is known to need.
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
    if options.images {
        for (host, storage) in world.pve.contents.keys() {
            let Some(Ok(volumes)) = world.pve.contents.get(&(host.clone(), storage.clone())) else {
                continue;
            };
            let own: BTreeSet<VolumeId> = desired
                .nodes
                .iter()
                .filter_map(|node| Some(node.image.as_ref()?.volume(storage)))
                .collect();
            for volume in volumes.iter().filter(|volume| own.contains(&volume.volid)) {
                let volume = volume.volid.clone();
                let fields = vec![FieldChange::new("host", Some(host.to_string()), None)];
                let object = Object::Image(volume.to_string());
                plan.changes.push(Change::planned(object, Class::Destroy, fields));
                let id = format!("image/{host}/{storage}/{}/delete", volume.file_name());
                let deadline = desired.timeouts.task;
                let action =
                    Action::DeleteImage(DeleteImage { host: host.clone(), volume, deadline });
                steps.add(id, None, gone.clone(), action);
            }
        }
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
