//! Control planes whose VM is gone but that etcd still lists as members.
//!
//! A new machine cannot join etcd under the name of an existing member, and a dead member endangers the majority. So a step
//! removes the dead member by its id before the VM is created again.

use std::collections::BTreeMap;

use super::builder::Builder;
use super::etcd_voters::{EtcdVoters, members, others_now};
use super::leaving_node::leave_id;
use super::placed::Placed;
use super::vm_plan::VmPlan;
use crate::observed::{KubernetesSeen, TalosSeen};
use crate::plan::{
    Action, Change, Class, FieldChange, Finding, FindingCode, Object, RemoveMember, StepId,
};

pub(super) fn plan(
    builder: &mut Builder<'_>,
    control_planes: &[&&Placed<'_>],
    vms: &BTreeMap<String, VmPlan>,
) {
    let mut voters = EtcdVoters::now(builder);
    let mut previous: Option<StepId> = None;
    for placed in control_planes {
        let name = &placed.node.name;
        // A control plane that is replaced leaves etcd before its VM is destroyed.
        let leaves = builder.steps.has(&StepId::new(leave_id(name)));
        if !vms[name].is_fresh || leaves || !members(builder).contains(name.as_str()) {
            continue;
        }
        if is_ready(builder, name) {
            let message = "its VM is not found, but etcd lists it as a member, and Kubernetes reports it as ready: its VM runs where \
                           the token cannot see it";
            let hint =
                "find the VM in Proxmox, and put it back into its pool; then run the same command";
            builder
                .findings
                .push(Finding::error(FindingCode::EtcdMemberStale, name, message).hint(hint));
            continue;
        }
        let rest = voters.without(name).ok().filter(|_| voters.has_quorum());
        let Some(rest) = rest else {
            let message = "its VM is gone, etcd still lists it as a member, and too few of the other members are healthy to remove it";
            let hint = "bring the other control planes up, then run the same command";
            builder
                .findings
                .push(Finding::error(FindingCode::EtcdMemberStale, name, message).hint(hint));
            continue;
        };
        voters = rest;
        let fields = vec![FieldChange::new(
            "etcd",
            Some("member without a VM".to_owned()),
            Some("removed".to_owned()),
        )];
        builder.changes.push(Change::planned(Object::Node(name.clone()), Class::Live, fields));
        let leave = Action::RemoveMember(RemoveMember {
            member: name.clone(),
            node: None,
            others: others_now(builder, name),
            deadline: builder.desired.timeouts.bootstrap,
        });
        let step = builder.steps.add(leave_id(name), Some(name), previous.take(), leave);
        for making in ["create", "clone", "start"] {
            builder.steps.put_behind(&StepId::new(format!("vm/{name}/{making}")), &step);
        }
        previous = Some(step);
    }
}

/// Whether Kubernetes reports a node as ready, and its address was not probed. Kubernetes reports a node as ready for some time after
/// its end, so a node that does not answer at its address counts as gone.
fn is_ready(builder: &Builder<'_>, name: &str) -> bool {
    if matches!(builder.observed.nodes.get(name), Some(TalosSeen::Nothing(_))) {
        return false;
    }
    match &builder.observed.kubernetes {
        KubernetesSeen::Answers(registered) => {
            registered.nodes.contains(name) && !registered.unready.contains(name)
        }
        KubernetesSeen::NotAsked | KubernetesSeen::Silent(_) => false,
    }
}
