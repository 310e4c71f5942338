//! Limits of a run: `--node` and `--only` remove all steps outside of the limits.
//!
//! The steps that stop, reboot or remove a running node form a chain. `rollout.rs` and `removal.rs` plan such chains only for
//! selected nodes and parts. This module keeps or removes a chain as a whole.

use std::collections::BTreeSet;

use super::builder::Builder;
use super::left_out::{adjust_health, is_made_by, not_joined, remove, remove_idle_end};
use super::scope::{Part, Scope};
use crate::plan::{Action, Change, Left, Object, Severity, Step, StepGraph, StepId};

pub(super) fn apply(builder: &mut Builder<'_>) {
    let scope = builder.scope;
    if scope.nodes.is_none() && scope.only.is_none() {
        return;
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
    let affected: BTreeSet<String> = removed.iter().filter_map(|step| step.node.clone()).collect();
    let waiting = not_joined(builder, &affected);
    adjust_health(builder, &waiting);
    let mut idle = affected;
    idle.retain(|name| !builder.steps.iter().any(|step| step.node.as_ref() == Some(name)));
    let has_end = builder.steps.iter().any(|step| is_end(&step.action));
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
    let nodes_with = |is: fn(&Action) -> bool| -> BTreeSet<String> {
        steps.iter().filter(|step| is(&step.action)).filter_map(|step| step.node.clone()).collect()
    };
    let created = nodes_with(|action| {
        matches!(action, Action::CreateVm(_) | Action::CloneVm(_) | Action::FinishVm(_))
    });
    let destroyed = nodes_with(|action| matches!(action, Action::DestroyVm(_)));
    let mut chained = nodes_with(|action| {
        matches!(
            action,
            Action::DrainNode(_)
                | Action::UncordonNode(_)
                | Action::ShutdownNode(_)
                | Action::RebootNode(_)
                | Action::RemoveMember(_)
                | Action::ResetNode(_)
                | Action::DeleteNode(_)
                | Action::DestroyVm(_)
        )
    });
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
    let needs_cluster =
        |step: &Step| is_end(&step.action) || matches!(step.action, Action::ApplyAddon(_));
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
        return match part(&step.action) {
            Some(Part::Addons) => scope.allows_cluster(Part::Addons),
            // A run with `--only vms` also fetches images for its VMs. Unused images are removed later.
            Some(Part::Images) => {
                scope.only.is_none_or(|only| matches!(only, Part::Images | Part::Vms))
            }
            Some(part) => scope.only.is_none_or(|only| only == part),
            None => scope.only.is_none_or(|only| matches!(only, Part::Configs | Part::Addons)),
        };
    };
    match part(&step.action) {
        // A chain of a run that is limited to configs never creates, starts or changes a VM.
        part if chained.contains(node) => {
            let is_config = part != Some(Part::Vms);
            scope.allows(node, Part::Vms) || (is_config && scope.allows(node, Part::Configs))
        }
        Some(part) => scope.allows(node, part),
        None => scope.allows(node, Part::Configs),
    }
}

/// The part of the cluster that a step changes. None for steps that only wait or write local files.
fn part(action: &Action) -> Option<Part> {
    match action {
        Action::PostSchematic(_)
        | Action::FetchImage(_)
        | Action::DeleteImage(_)
        | Action::MakeTemplate(_) => Some(Part::Images),
        Action::CreateMapping(_)
        | Action::UploadCidata(_)
        | Action::CreateVm(_)
        | Action::CloneVm(_)
        | Action::ResizeDisk(_)
        | Action::FinishVm(_)
        | Action::StartVm(_)
        | Action::ScrubCidata(_)
        | Action::DetachCidata(_)
        | Action::StopVm(_)
        | Action::DestroyVm(_)
        | Action::ChangeVm(_)
        | Action::RestoreMarker(_)
        | Action::MigrateVm(_)
        // A member is removed only together with its VM, or before its lost VM is created again.
        | Action::RemoveMember(_) => Some(Part::Vms),
        Action::ApplyAddon(_) => Some(Part::Addons),
        Action::AwaitVip(_) | Action::AwaitHealth(_) | Action::WriteClientFiles(_) => None,
        // All other steps change a node after its VM runs.
        _ => Some(Part::Configs),
    }
}

fn is_end(action: &Action) -> bool {
    matches!(action, Action::AwaitVip(_) | Action::AwaitHealth(_) | Action::WriteClientFiles(_))
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
