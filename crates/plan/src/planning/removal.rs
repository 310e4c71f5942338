//! Removal of nodes that are no longer in the inventory, and of etcd members without a node.
//!
//! The disks of these nodes are lost, so the user must consent to each removal. Control planes are removed one after the
//! other, after all other steps of the plan.

use super::builder::Builder;
use super::etcd_voters::{EtcdVoters, members, others_then, unknown_member};
use super::leaving_node::{LeavingNode, leave_id};
use super::orphan;
use super::placed::ObservedVm;
use super::protection::unprotect;
use super::scope::Part;
use crate::observed::KubernetesSeen;
use crate::plan::{
    Action, Change, Class, FieldChange, Finding, FindingCode, Left, Object, OwnVm, RemoveMember,
    StepId,
};

const GONE: &str = "the node is no longer in the inventory";
const NO_RESET: &str =
    "its address is not known, so it is not reset: its disks are deleted with its VM";
const ETCD_SILENT: &str =
    "etcd of the cluster does not answer: a node is removed only while etcd works without it";

/// Why a node is not removed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Obstacle {
    pub(super) why: Left,
    pub(super) note: Option<String>,
}

impl Obstacle {
    pub(super) fn of(why: Left) -> Self {
        Self { why, note: None }
    }

    pub(super) fn noted(why: Left, note: impl Into<String>) -> Self {
        Self { why, note: Some(note.into()) }
    }
}

/// Plans the removals. `last` contains the last steps of the changes of nodes that stay.
pub(super) fn plan(builder: &mut Builder<'_>, last: &[StepId]) {
    let removed = builder.places.removed.clone();
    let before: Vec<StepId> = last.iter().cloned().chain(joins(builder)).collect();
    let mut voters = EtcdVoters::after_joins(builder);
    let (mut planes, mut workers) = (vec![], vec![]);
    for (own, found) in &removed {
        let node = LeavingNode::orphan(builder, own, found);
        let list = if node.has_etcd { &mut planes } else { &mut workers };
        list.push((node, found));
    }
    let mut gone: Vec<StepId> = vec![];
    let window = builder.scope.max_unavailable.get();
    for (node, found) in &workers {
        let obstacle = obstacle(builder, node, found, &voters);
        if report(builder, node, found, obstacle) {
            let earlier = gone.len().checked_sub(window).map(|at| gone[at].clone());
            let after = before.iter().cloned().chain(earlier).collect();
            gone.push(node.leave(builder, vec![], false, after));
        }
    }
    let mut previous: Option<StepId> = None;
    for (node, found) in &planes {
        let obstacle = obstacle(builder, node, found, &voters);
        if report(builder, node, found, obstacle) {
            if let Ok(rest) = voters.without(node.name()) {
                voters = rest;
            }
            let after = before.iter().cloned().chain(previous.take()).collect();
            let others = others_then(builder, node.name());
            previous = Some(node.leave(builder, others, false, after));
        }
    }
    for name in orphan::stale_members(builder) {
        let after = before.iter().cloned().chain(previous.clone()).collect();
        if let Some(step) = stale_member(builder, &name, &mut voters, after) {
            previous = Some(step);
        }
    }
}

/// The steps that wait until nodes have joined.
fn joins(builder: &Builder<'_>) -> Vec<StepId> {
    let is_join = |id: &StepId| {
        let id = id.as_str();
        (id.starts_with("talos/") && id.ends_with("/join"))
            || (id.starts_with("ubuntu/") && id.ends_with("/up"))
    };
    builder.steps.iter().map(|step| &step.id).filter(|id| is_join(id)).cloned().collect()
}

/// Why an orphan is not removed. None if its removal can be planned.
fn obstacle(
    builder: &mut Builder<'_>,
    node: &LeavingNode,
    found: &ObservedVm<'_>,
    voters: &EtcdVoters,
) -> Option<Obstacle> {
    let name = node.name();
    if !builder.scope.allows(name, Part::Vms) {
        return Some(Obstacle::of(Left::NotSelected));
    }
    if node.is_talos && !is_etcd_settled(builder, voters) {
        return Some(Obstacle::noted(Left::Blocked, ETCD_SILENT));
    }
    if let Some(obstacle) = protection(builder, &node.own, found) {
        return Some(obstacle);
    }
    if node.has_etcd
        && let Some(note) = unknown_member(builder)
    {
        return Some(Obstacle::noted(Left::Blocked, note));
    }
    if node.has_etcd
        && let Err(why) = voters.without(name)
    {
        return Some(Obstacle::noted(Left::Impossible, why.note()));
    }
    (!builder.scope.removal.covers(name)).then(|| Obstacle::of(Left::NeedsConsent))
}

/// Whether etcd exists and works. While etcd does not answer or is about to be bootstrapped, any VM of the cluster may hold
/// the only copy of the etcd data.
pub(super) fn is_etcd_settled(builder: &Builder<'_>, voters: &EtcdVoters) -> bool {
    let is_bootstrapped =
        builder.steps.iter().any(|step| matches!(step.action, Action::BootstrapEtcd(_)));
    let has_talos = builder.desired.nodes.iter().any(|node| node.is_talos);
    !has_talos || (voters.is_known() && !is_bootstrapped)
}

/// The obstacle if Proxmox protects the VM from deletion. A warning then says how to remove the protection.
pub(super) fn protection(
    builder: &mut Builder<'_>,
    own: &OwnVm,
    found: &ObservedVm<'_>,
) -> Option<Obstacle> {
    if !found.config.is_protected() {
        return None;
    }
    let (name, vm) = (&own.identity.node, &own.vm);
    let message = format!("its VM {} is protected from deletion", vm.vmid);
    let hint = unprotect(&vm.node, vm.vmid);
    builder.findings.push(Finding::warning(FindingCode::VmProtected, name, message).hint(hint));
    Some(Obstacle::of(Left::Blocked))
}

/// Adds the changes of an orphan. Returns whether the removal of the orphan is planned.
fn report(
    builder: &mut Builder<'_>,
    leaving: &LeavingNode,
    found: &ObservedVm<'_>,
    obstacle: Option<Obstacle>,
) -> bool {
    let own = &leaving.own;
    let name = &own.identity.node;
    let vm = vec![
        FieldChange::of("vmid", Some(own.vm.vmid.into()), None),
        FieldChange::new("host", Some(found.seen.host.to_string()), None),
    ];
    let node = known_of(builder, name);
    let why = obstacle.as_ref().map(|obstacle| obstacle.why);
    let no_reset = leaving.lacks_address().then(|| NO_RESET.to_owned());
    let notes = obstacle.and_then(|obstacle| obstacle.note).into_iter().chain(no_reset);
    let note = std::iter::once(GONE.to_owned()).chain(notes).collect::<Vec<_>>().join("; ");
    builder.changes.push(destroyed(Object::Vm(name.clone()), vm, why).note(note));
    if !node.is_empty() {
        builder.changes.push(destroyed(Object::Node(name.clone()), node, why));
    }
    why.is_none()
}

fn destroyed(object: Object, fields: Vec<FieldChange>, why: Option<Left>) -> Change {
    match why {
        Some(why) => Change::left(object, Class::Destroy, fields, why),
        None => Change::planned(object, Class::Destroy, fields),
    }
}

/// Whether etcd and Kubernetes still list a node, as fields of a change.
fn known_of(builder: &Builder<'_>, name: &str) -> Vec<FieldChange> {
    let mut fields = vec![];
    if members(builder).contains(name) {
        fields.push(FieldChange::new("etcd", Some("member".to_owned()), None));
    }
    if let KubernetesSeen::Answers(registered) = &builder.observed.kubernetes
        && registered.nodes.contains(name)
    {
        fields.push(FieldChange::new("kubernetes", Some("registered".to_owned()), None));
    }
    fields
}

/// Plans the removal of an etcd member that has neither a node in the inventory nor a VM.
fn stale_member(
    builder: &mut Builder<'_>,
    name: &str,
    voters: &mut EtcdVoters,
    after: Vec<StepId>,
) -> Option<StepId> {
    let rest = voters.without(name);
    let obstacle = match &rest {
        _ if !builder.scope.allows(name, Part::Vms) => Some(Obstacle::of(Left::NotSelected)),
        Err(why) => Some(Obstacle::noted(Left::Impossible, why.note())),
        Ok(_) if !builder.scope.removal.covers(name) => Some(Obstacle::of(Left::NeedsConsent)),
        Ok(_) => None,
    };
    let fields = vec![FieldChange::new("etcd", Some("member".to_owned()), None)];
    let change = destroyed(
        Object::Node(name.to_owned()),
        fields,
        obstacle.as_ref().map(|obstacle| obstacle.why),
    );
    let note = "etcd lists it, but neither the inventory nor a VM of the cluster has this name";
    let is_planned = obstacle.is_none();
    let note = match obstacle.and_then(|obstacle| obstacle.note) {
        Some(more) => format!("{note}; {more}"),
        None => note.to_owned(),
    };
    builder.changes.push(change.note(note));
    let rest = rest.ok().filter(|_| is_planned)?;
    *voters = rest;
    let leave = RemoveMember {
        member: name.to_owned(),
        node: None,
        others: others_then(builder, name),
        deadline: builder.desired.timeouts.bootstrap,
    };
    Some(builder.steps.add(leave_id(name), Some(name), after, Action::RemoveMember(leave)))
}
