//! Rollout: the order in which nodes are changed.
//!
//! One node is changed first, as a canary: a worker if any worker changes. The other workers follow, of which at most
//! `--max-unavailable` are down at the same time. Then the control planes follow one by one, with the etcd leader last. A
//! step is skipped if a step that it depends on failed, so a node that does not come back stops the rollout.
//!
//! A node that answers and has not joined the cluster is changed before all others, because the change may be what it needs to
//! join.
//!
//! Options that a running VM accepts at once are not ordered among each other, because no node goes down for them. Like every
//! other change, they come after the repairs: a node that does not come back may need the VM as it is.

use std::collections::BTreeMap;

use super::builder::Builder;
use super::etcd_voters::members;
use super::node_change::{NodeChange, NodeChanges};
use super::placed::{Placed, VmPresence};
use super::scope::Part;
use super::talos::BOOTSTRAP;
use super::{left_etcd, node_chain, registration, replacement};
use crate::observed::{CordonedBy, KubernetesSeen, TalosSeen};
use crate::ownership::Stage;
use crate::plan::{Change, Class, FieldChange, Left, Object, StepId};

const TWO: &str = "etcd has two members and works only with both, so neither can be restarted: add a third control plane, or restart the \
     whole cluster with `talmox node shutdown --all` and `talmox node start --all`";

/// Plans the steps of all collected changes. Returns the last step of each node.
pub(super) fn plan(builder: &mut Builder<'_>) -> Vec<StepId> {
    let mut changes = std::mem::take(&mut builder.node_changes);
    leave_unselected(builder, &mut changes);
    let places = builder.places.nodes.clone();
    let registered = registration::plan(builder, &places);
    let mut last: BTreeMap<String, StepId> = BTreeMap::new();
    let (mut stuck, mut workers, mut control_planes) = (vec![], vec![], vec![]);
    let mut healed = healed(builder, &places);
    healed.extend(registered.clone());
    for placed in &places {
        let Some(change) = changes.get(&placed.node.name) else { continue };
        if !change.is_rolled_out() {
            // A node that this run repairs may need its own change for that.
            let own = returns(&placed.node.name);
            let others: Vec<StepId> =
                healed.iter().filter(|id| !own.contains(id)).cloned().collect();
            let end = node_chain::plan(builder, placed, change, &others);
            last.extend(end.map(|end| (placed.node.name.clone(), end)));
        } else if node_chain::is_stuck(builder, placed) {
            stuck.push((placed, change));
        } else if node_chain::has_etcd(builder, placed) {
            control_planes.push((placed, change));
        } else {
            workers.push((placed, change));
        }
    }
    control_planes.sort_by_key(|(placed, _)| is_leader(builder, placed));
    if members(builder).len() == 2 {
        // Of two members, neither may stop: the remaining one is no majority. A control plane without a healthy member may stop.
        stuck.retain(|(placed, change)| {
            let is_member =
                node_chain::has_etcd(builder, placed) && !node_chain::lacks_etcd(builder, placed);
            !is_member || !change.stops() || !leave_of_two(builder, placed)
        });
        control_planes.retain(|(placed, change)| !change.stops() || !leave_of_two(builder, placed));
    }
    let order = [&stuck, &workers, &control_planes].into_iter().flatten();
    let order: Vec<&str> = order.map(|(placed, _)| placed.node.name.as_str()).collect();
    if !order.is_empty() {
        let window = builder.scope.max_unavailable;
        let order = order.join(", ");
        tracing::info!(target: "talmox::plan", subject = "rollout", "order: {order}; workers down at the same time: at most {window}");
    }
    change_stuck(builder, &stuck, &mut last);
    let workers_done = roll_workers(builder, &workers, &healed, &mut last);
    let mut before = if workers_done.is_empty() { healed } else { workers_done };
    for (placed, change) in control_planes {
        if let Some(end) = node_chain::plan(builder, placed, change, &before) {
            before = vec![end.clone()];
            last.insert(placed.node.name.clone(), end);
        }
    }
    for placed in &places {
        uncordon(builder, placed, &mut last);
    }
    last.into_values().chain(registered).collect()
}

/// Leaves the changes of one of two control planes that need a restart. Returns true.
fn leave_of_two(builder: &mut Builder<'_>, placed: &Placed<'_>) -> bool {
    let name = placed.node.name.as_str();
    let is_own = |change: &&mut Change| {
        change.object.node() == Some(name) && change.is_planned && change.class > Class::Live
    };
    for change in builder.changes.iter_mut().filter(is_own) {
        (change.is_planned, change.left) = (false, Some(Left::Impossible));
        change.note = Some(match change.note.take() {
            Some(note) => format!("{note}; {TWO}"),
            None => TWO.to_owned(),
        });
    }
    true
}

/// Plans the steps of nodes that answer and have not joined, one node after the other. The change may be what such a node needs to
/// join, so the run waits for the bootstrap and the join only afterwards.
fn change_stuck(
    builder: &mut Builder<'_>,
    stuck: &[(&Placed<'_>, &NodeChange)],
    last: &mut BTreeMap<String, StepId>,
) {
    let mut before: Vec<StepId> = vec![];
    for (placed, change) in stuck {
        let name = &placed.node.name;
        let Some(end) = node_chain::plan(builder, placed, change, &before) else { continue };
        builder.steps.put_behind(&StepId::new(format!("talos/{name}/join")), &end);
        if placed.node.is_control_plane {
            builder.steps.put_behind(&StepId::new(BOOTSTRAP), &end);
        }
        before = vec![end.clone()];
        last.insert(name.clone(), end);
    }
}

/// Plans the steps of the workers. Returns the steps after which all workers are done.
fn roll_workers(
    builder: &mut Builder<'_>,
    workers: &[(&Placed<'_>, &NodeChange)],
    healed: &[StepId],
    last: &mut BTreeMap<String, StepId>,
) -> Vec<StepId> {
    let size = builder.scope.max_unavailable.get();
    let mut canary: Option<StepId> = None;
    let mut ends: Vec<StepId> = vec![];
    for (placed, change) in workers {
        let after = match &canary {
            None => healed.to_vec(),
            // A worker depends on all workers before its window, not only on one of them. So one failed worker stops all
            // later workers.
            Some(canary) => match (ends.len() + 1).checked_sub(size).filter(|past| *past > 0) {
                Some(past) => ends[past.saturating_sub(size)..past].to_vec(),
                None => vec![canary.clone()],
            },
        };
        let Some(end) = node_chain::plan(builder, placed, change, &after) else { continue };
        last.insert(placed.node.name.clone(), end.clone());
        match canary {
            None => canary = Some(end),
            Some(_) => ends.push(end),
        }
    }
    if ends.is_empty() {
        return canary.into_iter().collect();
    }
    ends.split_off(ends.len().saturating_sub(size))
}

/// The steps after which the nodes that this run repairs are back. No change starts before, because the cluster may need
/// every other node.
fn healed(builder: &Builder<'_>, places: &[Placed<'_>]) -> Vec<StepId> {
    let is_repaired = |placed: &&Placed<'_>| {
        let name = &placed.node.name;
        let is_old =
            matches!(&placed.state, VmPresence::Owned(found) if found.marker.stage == Stage::Made);
        // A node that Kubernetes lists and that has no VM lost it.
        let is_lost = match &builder.observed.kubernetes {
            KubernetesSeen::Answers(registered) => registered.nodes.contains(name),
            KubernetesSeen::NotAsked | KubernetesSeen::Silent(_) => false,
        };
        let is_replaced = replacement::is_planned(builder, name);
        placed.node.is_control_plane || is_old || is_lost || is_replaced
    };
    let steps = places.iter().filter(is_repaired).flat_map(|placed| returns(&placed.node.name));
    steps.filter(|id| builder.steps.has(id)).collect()
}

/// The steps after which a node is back in the cluster, if the plan has them.
fn returns(name: &str) -> [StepId; 2] {
    [format!("talos/{name}/join"), format!("ubuntu/{name}/up")].map(StepId::new)
}

fn is_leader(builder: &Builder<'_>, placed: &Placed<'_>) -> bool {
    match builder.observed.nodes.get(&placed.node.name) {
        Some(TalosSeen::OwnNode(found)) => found.is_leader,
        _ => false,
    }
}

/// Removes config changes that the limits of the run exclude. VM changes outside the limits were never collected.
fn leave_unselected(builder: &mut Builder<'_>, changes: &mut NodeChanges) {
    for (name, change) in changes {
        if change.config.is_none() || builder.scope.allows(name, Part::Configs) {
            continue;
        }
        change.config = None;
        change.renews_volume = false;
        let object = Object::Node(name.clone());
        let planned = builder.changes.iter_mut().filter(|change| change.object == object);
        for change in planned.filter(|change| change.is_planned && !change.is_awaited_state()) {
            change.is_planned = false;
            change.left = Some(Left::NotSelected);
        }
    }
}

/// Uncordons a node whose VM the run starts while Kubernetes does not answer: an interrupted run may have cordoned the node before
/// it stopped the VM. A node that talmox did not cordon is left as it is.
fn uncordon_started(
    builder: &mut Builder<'_>,
    placed: &Placed<'_>,
    last: &mut BTreeMap<String, StepId>,
) {
    let name = &placed.node.name;
    let is_old =
        matches!(&placed.state, VmPresence::Owned(found) if found.marker.stage == Stage::Made);
    let [start, join, uncordon] =
        [format!("vm/{name}/start"), format!("talos/{name}/join"), format!("node/{name}/uncordon")]
            .map(StepId::new);
    let is_started = builder.steps.has(&start) && builder.steps.has(&join);
    let is_selected = builder.scope.allows(name, Part::Configs);
    let is_open = is_started && is_selected && !builder.steps.has(&uncordon);
    if !builder.options.was_up || !is_old || !is_open {
        return;
    }
    let after = last.get(name).cloned().into_iter().chain([join]).collect();
    let end = node_chain::uncordon(builder, placed, after);
    last.insert(name.clone(), end);
}

/// Uncordons a node that an interrupted run left cordoned, if no other step uncordons it.
fn uncordon(builder: &mut Builder<'_>, placed: &Placed<'_>, last: &mut BTreeMap<String, StepId>) {
    let name = &placed.node.name;
    let KubernetesSeen::Answers(registered) = &builder.observed.kubernetes else {
        uncordon_started(builder, placed, last);
        return;
    };
    let is_cordoned = registered.cordoned.get(name) == Some(&CordonedBy::Talmox);
    let is_planned = builder.steps.has(&StepId::new(format!("node/{name}/uncordon")));
    let is_there = !matches!(placed.state, VmPresence::Blocked);
    // A node that must be replaced stays cordoned.
    let is_leaving = left_etcd::is_open(builder, name);
    if !is_cordoned || is_planned || !is_there || is_leaving {
        return;
    }
    let fields = vec![FieldChange::new("cordoned", Some("by talmox".to_owned()), None)];
    let object = Object::Node(name.clone());
    let scope = builder.scope;
    if !scope.allows(name, Part::Vms) && !scope.allows(name, Part::Configs) {
        builder.changes.push(Change::left(object, Class::Live, fields, Left::NotSelected));
        return;
    }
    builder.changes.push(Change::planned(object, Class::Live, fields));
    let joined = StepId::new(format!("talos/{name}/join"));
    let joined = Some(joined).filter(|joined| builder.steps.has(joined));
    let after = last.get(name).cloned().into_iter().chain(joined).collect();
    let end = node_chain::uncordon(builder, placed, after);
    last.insert(name.clone(), end);
}
