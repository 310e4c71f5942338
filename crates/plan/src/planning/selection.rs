//! Limits of a run: `--node` and `--only` remove all steps outside of the limits.
//!
//! The steps that stop, reboot or remove a running node form a chain. `rollout.rs` and `removal.rs` plan such chains only for
//! selected nodes and parts. This module keeps or removes a chain as a whole.

use std::collections::BTreeSet;

use super::builder::Builder;
use super::decision;
use super::left_out::{adjust_health, is_made_by, not_joined, remove, remove_idle_end};
use super::scope::Scope;
use crate::plan::{
    Action, Change, Left, NodeEffect, Object, Part, RunPhase, Severity, Step, StepGraph, StepId,
};

pub(super) fn apply(builder: &mut Builder<'_>) {
    let scope = builder.scope;
    if scope.nodes.is_none() && scope.only.is_none() {
        return;
    }
    if let Some(selected) = &scope.nodes {
        let nodes = builder.desired.nodes.iter().filter(|node| !selected.contains(&node.name));
        for node in nodes {
            tracing::info!(target: "talmox::plan", subject = node.name, "skipped: --node does not name it");
        }
    }
    let chained = chained_nodes(&builder.steps);
    let excluded = excluded_steps(&builder.steps, scope, &chained);
    let is_excluded = |step: &Step| excluded.contains(&step.id);
    // A run with `--only images` fetches images even if no step of the run needs them.
    let removed = if scope.only == Some(Part::Images) {
        builder.steps.remove(is_excluded)
    } else {
        remove(builder, is_excluded)
    };
    decision::skipped_steps(&removed, "--node or --only excludes it");
    let affected: BTreeSet<String> = removed.iter().filter_map(|step| step.node.clone()).collect();
    let waiting = not_joined(builder, &affected);
    adjust_health(builder, &waiting);
    let mut idle = affected;
    idle.retain(|name| !builder.steps.iter().any(|step| step.node.as_ref() == Some(name)));
    let has_end = builder.steps.iter().any(|step| step.action.phase() == RunPhase::End);
    for change in &mut builder.changes {
        let is_excluded = match (&change.object, change.object.node()) {
            // A difference that the inventory accepts keeps its reason.
            _ if change.left == Some(Left::Ignored) => false,
            (_, Some(node)) if !change.is_planned => {
                is_node_change_excluded(change, node, scope, &chained)
            }
            _ if !change.is_planned => false,
            (_, Some(node)) => {
                idle.contains(node) || is_node_change_excluded(change, node, scope, &chained)
            }
            (Object::Cluster(_), _) => !has_end,
            _ => removed.iter().any(|step| is_made_by(change, step)),
        };
        if is_excluded {
            change.leave(Left::NotSelected);
        }
    }
    remove_idle_end(builder);
    // An error about a node outside of the limits does not leave anything undone in this run.
    for finding in builder.findings.iter_mut().filter(|finding| finding.blocks_only_its_node) {
        if scope.nodes.as_ref().is_some_and(|nodes| !nodes.contains(&finding.subject)) {
            finding.blocks_only_its_node = false;
            finding.severity = Severity::Warning;
        }
    }
}

/// Nodes with steps that stop, reboot or remove them. A node whose lost VM is created again is not among them: the removal of
/// its dead etcd member is no reason to create a VM in a run that is limited to configs.
fn chained_nodes(steps: &StepGraph) -> BTreeSet<String> {
    let nodes_with = |effect: NodeEffect| -> BTreeSet<String> {
        let with_effect = steps.iter().filter(|step| step.action.node_effect() == effect);
        with_effect.filter_map(|step| step.node.clone()).collect()
    };
    let created = nodes_with(NodeEffect::Creates);
    let destroyed = nodes_with(NodeEffect::Destroys);
    let mut chained = nodes_with(NodeEffect::Interrupts);
    chained.extend(destroyed.iter().cloned());
    chained.retain(|name| !created.contains(name) || destroyed.contains(name));
    chained
}

/// The steps outside of the limits, and the steps that need their results.
fn excluded_steps(
    steps: &StepGraph,
    scope: &Scope,
    chained: &BTreeSet<String>,
) -> BTreeSet<StepId> {
    let has_bootstrap = steps.iter().any(|step| matches!(step.action, Action::BootstrapEtcd(_)));
    // Before the bootstrap, no cluster exists that a step could wait for or install add-ons into.
    let needs_cluster = |step: &Step| {
        step.action.phase() == RunPhase::End || step.action.part() == Some(Part::Addons)
    };
    let outside = steps
        .iter()
        .filter(|step| !is_allowed(step, scope, chained) || (has_bootstrap && needs_cluster(step)));
    let mut excluded: BTreeSet<StepId> = outside.map(|step| step.id.clone()).collect();
    loop {
        let needs_excluded = |step: &&Step| {
            !excluded.contains(&step.id)
                && step.after.iter().any(|id| excluded.contains(id) && needs(steps, step, id))
        };
        let further: Vec<StepId> =
            steps.iter().filter(needs_excluded).map(|step| step.id.clone()).collect();
        if further.is_empty() {
            return excluded;
        }
        excluded.extend(further);
    }
}

/// Whether a step needs the result of a step that it depends on. It does if both belong to the same node, or if the other
/// step bootstraps etcd. Otherwise the dependency only sets the order.
fn needs(steps: &StepGraph, step: &Step, before: &StepId) -> bool {
    let Some(before) = steps.iter().find(|other| other.id == *before) else { return false };
    let is_same_node = step.node.is_some() && step.node == before.node;
    is_same_node || matches!(before.action, Action::BootstrapEtcd(_))
}

fn is_allowed(step: &Step, scope: &Scope, chained: &BTreeSet<String>) -> bool {
    // A limited run never bootstraps etcd, because the bootstrap needs evidence from all control planes that they have no
    // etcd data.
    if matches!(step.action, Action::BootstrapEtcd(_)) {
        return false;
    }
    let Some(node) = &step.node else {
        return match step.action.part() {
            Some(Part::Addons) => scope.allows_cluster(Part::Addons),
            // A run with `--only vms` also fetches images for its VMs. Unused images are removed later.
            Some(Part::Images) => {
                scope.only.is_none_or(|only| matches!(only, Part::Images | Part::Vms))
            }
            Some(part) => scope.only.is_none_or(|only| only == part),
            None => scope.only.is_none_or(|only| matches!(only, Part::Configs | Part::Addons)),
        };
    };
    match step.action.part() {
        // A chain of a run that is limited to configs never creates, starts or changes a VM.
        part if chained.contains(node) => {
            let is_config = part != Some(Part::Vms);
            scope.allows(node, Part::Vms) || (is_config && scope.allows(node, Part::Configs))
        }
        Some(part) => scope.allows(node, part),
        None => scope.allows(node, Part::Configs),
    }
}

fn is_node_change_excluded(
    change: &Change,
    node: &str,
    scope: &Scope,
    chained: &BTreeSet<String>,
) -> bool {
    let is_member = change.fields.iter().any(|field| field.path == "etcd");
    let is_config = matches!(change.object, Object::Node(_)) && !is_member;
    if chained.contains(node) {
        let is_allowed =
            scope.allows(node, Part::Vms) || (is_config && scope.allows(node, Part::Configs));
        return !is_allowed;
    }
    !scope.allows(node, if is_config { Part::Configs } else { Part::Vms })
}
