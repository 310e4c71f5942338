//! Nodes that a plan leaves out because of an error that concerns only these nodes.
//!
//! A mistake in the settings of one node must not prevent the start or change of the other nodes. A node is left out only
//! while etcd runs. Before the bootstrap, each control plane must show that it has no etcd data, so an error about one of
//! them prevents the whole plan.

use std::collections::BTreeSet;

use super::builder::Builder;
use super::decision;
use crate::observed::{EtcdSeen, TalosSeen};
use crate::plan::{
    Action, Change, FieldValue, Finding, Left, NodeEffect, Object, RunPhase, Severity, Step, StepId,
};

/// Removes the steps of nodes with errors that concern only these nodes.
pub(super) fn apply(builder: &mut Builder<'_>) {
    if !is_possible(builder) {
        return;
    }
    let desired = builder.desired;
    let is_about_node = |finding: &Finding| {
        finding.severity == Severity::Error
            && finding.code.blocks_only_its_node()
            && desired.node(&finding.subject).is_some()
    };
    let mut nodes = BTreeSet::new();
    for finding in builder.findings.iter_mut().filter(|finding| is_about_node(finding)) {
        finding.blocks_only_its_node = true;
        nodes.insert(finding.subject.clone());
    }
    if nodes.is_empty() {
        return;
    }
    let waiting = not_joined(builder, &nodes);
    let members = kept_members(builder, &nodes);
    nodes.extend(members);
    let removed =
        remove(builder, |step| step.node.as_ref().is_some_and(|name| nodes.contains(name)));
    decision::skipped_steps(
        &removed,
        "an error about its node, or about all nodes that need it, prevents it",
    );
    adjust_health(builder, &waiting);
    remove_idle_end(builder);
    for change in builder.changes.iter_mut().filter(|change| change.is_planned) {
        let is_of_node = change.object.node().is_some_and(|name| nodes.contains(name));
        if is_of_node || removed.iter().any(|step| is_made_by(change, step)) {
            change.leave(Left::Blocked);
        }
    }
}

/// Whether single nodes can be left out: etcd runs, and no bootstrap is planned.
pub(super) fn is_possible(builder: &Builder<'_>) -> bool {
    let has_bootstrap =
        builder.steps.iter().any(|step| matches!(step.action, Action::BootstrapEtcd(_)));
    !has_bootstrap && has_etcd(builder)
}

/// Whether a node reports that it is a member of etcd.
fn has_etcd(builder: &Builder<'_>) -> bool {
    let is_member = |seen: &TalosSeen| match seen {
        TalosSeen::OwnNode(found) => matches!(found.etcd, EtcdSeen::Member { .. }),
        _ => false,
    };
    builder.observed.nodes.values().any(is_member)
}

/// Removes steps, and then the steps that only prepare them, such as the fetch of an image or the creation of a mapping.
pub(super) fn remove(builder: &mut Builder<'_>, is_removed: impl Fn(&Step) -> bool) -> Vec<Step> {
    let mut removed = builder.steps.remove(is_removed);
    loop {
        let users = builder.steps.iter().filter(|step| step.node.is_some() || is_preparation(step));
        let used: BTreeSet<StepId> = users.flat_map(|step| step.after.iter().cloned()).collect();
        let unused = builder.steps.remove(|step| is_preparation(step) && !used.contains(&step.id));
        if unused.is_empty() {
            return removed;
        }
        removed.extend(unused);
    }
}

fn is_preparation(step: &Step) -> bool {
    step.action.phase() == RunPhase::Preparation
}

/// Whether a step makes a change of an image, a mapping or an add-on.
pub(super) fn is_made_by(change: &Change, step: &Step) -> bool {
    match (&change.object, &step.action) {
        (Object::Image(name), Action::FetchImage(fetch)) => {
            let host = change.fields.iter().find(|field| field.path == "host");
            let host = host.and_then(|field| field.new.as_ref()).and_then(FieldValue::as_text);
            *name == fetch.volume.to_string() && host == Some(fetch.host.as_str())
        }
        (Object::Mapping(name), Action::CreateMapping(create)) => *name == create.id.to_string(),
        (Object::Addon(name), Action::ApplyAddon(apply)) => *name == apply.name,
        _ => false,
    }
}

/// The nodes among `nodes` that have not joined the cluster. The health check cannot wait for them.
pub(super) fn not_joined(builder: &Builder<'_>, nodes: &BTreeSet<String>) -> BTreeSet<String> {
    let has_joined = |name: &String| {
        let is_control_plane = builder.desired.node(name).is_some_and(|node| node.is_control_plane);
        match builder.observed.nodes.get(name) {
            Some(TalosSeen::OwnNode(found)) => found.has_joined(is_control_plane),
            _ => false,
        }
    };
    nodes.iter().filter(|name| !has_joined(name)).cloned().collect()
}

/// Control planes whose VM or etcd member the plan would remove. While a control plane is left out, no other control plane is
/// removed, because the one that is left out may be its replacement. A control plane whose VM is gone is still created again.
fn kept_members(builder: &Builder<'_>, nodes: &BTreeSet<String>) -> Vec<String> {
    let is_control_plane =
        |name: &String| builder.desired.node(name).is_some_and(|node| node.is_control_plane);
    if !nodes.iter().any(is_control_plane) {
        return vec![];
    }
    let is_destroyed = |name: &String| {
        let mut steps = builder.steps.iter().filter(|step| step.node.as_ref() == Some(name));
        steps.any(|step| step.action.node_effect() == NodeEffect::Destroys)
    };
    let leaving =
        builder.steps.iter().filter(|step| matches!(step.action, Action::RemoveMember(_)));
    let names = leaving.filter_map(|step| step.node.clone());
    names.filter(|name| builder.desired.node(name).is_none() || is_destroyed(name)).collect()
}

/// Removes nodes that will not join from the health check. If etcd lists one of them as a member, the cluster cannot become
/// healthy, so the health check itself is removed.
pub(super) fn adjust_health(builder: &mut Builder<'_>, waiting: &BTreeSet<String>) {
    let is_listed = |seen: &TalosSeen| match seen {
        TalosSeen::OwnNode(found) => match &found.etcd {
            EtcdSeen::Member { names } => names.iter().any(|name| waiting.contains(name)),
            _ => false,
        },
        _ => false,
    };
    if builder.observed.nodes.values().any(is_listed) {
        builder.steps.remove(|step| matches!(step.action, Action::AwaitHealth(_)));
        return;
    }
    for step in builder.steps.iter_mut() {
        if let Action::AwaitHealth(health) = &mut step.action {
            health.nodes.retain(|node| !waiting.contains(&node.name));
        }
    }
}

/// Removes the steps at the end of a run (shared address, client files, health) if no other step is left. They are kept if a
/// planned change of the whole cluster needs them.
pub(super) fn remove_idle_end(builder: &mut Builder<'_>) {
    let is_end = |step: &Step| step.action.phase() == RunPhase::End;
    let is_needed =
        |change: &Change| change.is_planned && matches!(change.object, Object::Cluster(_));
    if builder.options.has_client_files
        && builder.steps.iter().all(is_end)
        && !builder.changes.iter().any(is_needed)
    {
        builder.steps.remove(is_end);
    }
}
