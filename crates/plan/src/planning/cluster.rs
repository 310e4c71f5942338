//! Planning of cluster-wide steps: shared address, client files, health and add-ons.

use std::collections::BTreeMap;
use std::time::Duration;

use super::builder::Builder;
use super::placed::Placed;
use super::{addon, addon_order, left_etcd, orphan, preflight, vip};
use crate::observed::{AddonRead, KubernetesSeen, VipSeen};
use crate::plan::{
    Action, AwaitHealth, AwaitVip, Change, Class, FieldChange, HealthGoal, Meanwhile, Object,
    StepId, TalosNode, VipBringer, WriteClientFiles,
};

/// The step that waits until the cluster is healthy.
const HEALTH: &str = "cluster/health";

/// Plans the steps of the cluster as a whole, after its nodes have joined.
pub(super) fn plan(
    builder: &mut Builder<'_>,
    nodes: &[&Placed<'_>],
    bootstrap: Option<&StepId>,
    joined: &[StepId],
) {
    let desired = builder.desired;
    let all: Vec<TalosNode> = nodes.iter().map(|placed| placed.talos_node()).collect();
    let is_new = !joined.is_empty() || bootstrap.is_some();
    let mut ready: Vec<StepId> = joined.to_vec();
    let mut open = vec![];
    builder.findings.extend(preflight::virtual_address(builder, bootstrap.is_some()));
    let mut vip = None;
    let mut late_vip = await_vip(builder, bootstrap.is_some(), is_new);
    if late_vip.is_some() {
        open.push(FieldChange::new("vip", Some("silent".into()), Some("answers".into())));
    }
    // Talos holds the shared address as soon as etcd runs. An add-on can hold it only after the cluster runs.
    if let Some(action) = late_vip.take_if(|vip| vip.by == VipBringer::Talos) {
        let after = bootstrap.map_or(joined, std::slice::from_ref);
        vip = Some(builder.steps.add("vip", None, after.to_vec(), Action::AwaitVip(action)));
        ready.extend(vip.clone());
    }
    let problem = problem(builder).filter(|_| !is_new);
    let is_changed = is_new || problem.is_some();
    open.extend(problem.map(|why| FieldChange::new("health", Some(why), Some("healthy".into()))));
    if !is_new && !open.is_empty() {
        let object = Object::Cluster(desired.cluster.clone());
        builder.changes.push(Change::planned(object, Class::Live, open));
    }
    let mut files = None;
    if is_new || !builder.options.has_client_files {
        if !is_new {
            let fields = vec![FieldChange::set("client files", "kubeconfig, talosconfig")];
            let object = Object::Cluster(desired.cluster.clone());
            builder.changes.push(Change::planned(object, Class::Create, fields));
        }
        let meanwhile =
            if late_vip.is_some() { Meanwhile::Around } else { Meanwhile::Await(vip.clone()) };
        let mut action = write_client_files(builder, &all, meanwhile);
        action.deadline += vip.map_or(Duration::ZERO, |_| desired.timeouts.bootstrap);
        // This step does not depend on the step that waits for the shared address, because client files can contain the
        // address of a control plane.
        let action = Action::WriteClientFiles(action);
        files = Some(builder.steps.add("kubeconfig", None, joined.to_vec(), action));
    } else {
        tracing::info!(target: "talmox::plan", subject = "kubeconfig", "skipped: the client files are current");
    }
    // Without a pod network no node is ready before the add-on that brings one.
    let health = await_health(builder, all.clone());
    if is_changed && desired.has_cni {
        ready = vec![builder.steps.add(HEALTH, None, ready, health.clone())];
    }
    let applied = apply_addons(builder, &ready);
    ready.extend(applied.iter().cloned());
    if (is_changed || !applied.is_empty()) && !desired.has_cni {
        builder.steps.add(HEALTH, None, ready.clone(), health);
    }
    if let Some(action) = late_vip {
        let vip = builder.steps.add("vip", None, ready, Action::AwaitVip(action));
        let action = write_client_files(builder, &all, Meanwhile::Leave);
        if action.shared.is_some() {
            let after = std::iter::once(vip).chain(files);
            builder.steps.add("vip/kubeconfig", None, after, Action::WriteClientFiles(action));
        }
    }
}

/// Plans to apply all add-ons, each after those that it needs. Returns the steps.
fn apply_addons(builder: &mut Builder<'_>, ready: &[StepId]) -> Vec<StepId> {
    let (desired, observed) = (builder.desired, builder.observed);
    let mut applied = vec![];
    // The steps that a later add-on must wait for, by the name of the earlier one. An add-on that is as desired has no step, so
    // the later one waits for the steps before it.
    let mut ends: BTreeMap<&str, Vec<StepId>> = BTreeMap::new();
    for (addon, before) in addon_order::ordered(desired, observed) {
        let before: Vec<StepId> =
            before.iter().filter_map(|name| ends.get(name)).flatten().cloned().collect();
        let after = [ready, &before[..]].concat();
        let step = addon::apply(builder, addon, &after);
        ends.insert(&addon.name, step.clone().map_or(before, |step| vec![step]));
        applied.extend(step);
    }
    applied
}

/// Puts the health check of the cluster after all changes of nodes and all removals: Kubernetes restarts its components after a
/// changed config, and a run ends when the cluster is healthy. A run that is limited to nodes or parts leaves the rest of the cluster
/// as it is, so it does not wait for its health.
pub(super) fn check_after_changes(builder: &mut Builder<'_>) {
    let changes_cluster = |action: &Action| {
        matches!(
            action,
            Action::ChangeConfig(_)
                | Action::RestartKubelet(_)
                | Action::UncordonNode(_)
                | Action::RemoveMember(_)
                | Action::DeleteNode(_)
                | Action::DestroyVm(_)
        )
    };
    let changes = builder.steps.iter().filter(|step| changes_cluster(&step.action));
    let before: Vec<StepId> = changes.map(|step| step.id.clone()).collect();
    let is_limited = builder.scope.nodes.is_some() || builder.scope.only.is_some();
    if before.is_empty() || is_limited {
        return;
    }
    let is_awaited = |placed: &&Placed<'_>| {
        placed.node.is_talos && !left_etcd::is_open(builder, &placed.node.name)
    };
    let nodes = builder.places.nodes.iter().filter(is_awaited);
    let nodes: Vec<TalosNode> = nodes.map(Placed::talos_node).collect();
    let health = await_health(builder, nodes);
    let health = builder.steps.add(HEALTH, None, [], health);
    for change in &before {
        builder.steps.put_behind(&health, change);
    }
}

fn await_health(builder: &Builder<'_>, nodes: Vec<TalosNode>) -> Action {
    let allows_other_members =
        orphan::explain_strange_members(builder) || has_unplaced_control_plane(builder);
    let (goal, deadline) = (goal(builder), builder.desired.timeouts.health);
    Action::AwaitHealth(AwaitHealth { nodes, goal, allows_other_members, deadline })
}

/// Whether a control plane of the inventory cannot be placed. It may be a member of etcd, and the health check does not ask it.
fn has_unplaced_control_plane(builder: &Builder<'_>) -> bool {
    let is_placed = |name: &str| builder.places.nodes.iter().any(|placed| placed.node.name == name);
    builder.desired.control_planes().any(|node| !is_placed(&node.name))
}

/// The step that waits for the shared address, if it does not answer or cannot yet. If no holder is known, the step is
/// planned only together with other steps.
fn await_vip(builder: &mut Builder<'_>, is_bootstrapped: bool, is_new: bool) -> Option<AwaitVip> {
    let desired = builder.desired;
    let is_silent = builder.observed.vip == VipSeen::Silent;
    let address = desired.vip.filter(|_| is_bootstrapped || is_silent)?;
    let by = vip::bringer(builder);
    if by == VipBringer::Nobody {
        builder.findings.extend(vip::unheld(desired));
        if !is_new {
            return None;
        }
    }
    Some(AwaitVip { address, port: vip::PORT, by, deadline: desired.timeouts.bootstrap })
}

fn write_client_files(
    builder: &Builder<'_>,
    all: &[TalosNode],
    meanwhile: Meanwhile,
) -> WriteClientFiles {
    let desired = builder.desired;
    WriteClientFiles {
        cluster: desired.cluster.clone(),
        server: desired.endpoint.clone().unwrap_or_default(),
        shared: vip::shared(builder, meanwhile),
        endpoints: all.iter().filter(|node| node.is_control_plane).cloned().collect(),
        nodes: all.to_vec(),
        deadline: desired.timeouts.task,
    }
}

/// The condition under which the cluster counts as healthy. Nodes become ready only with a pod network, which Talos, an
/// add-on or the user installs.
fn goal(builder: &Builder<'_>) -> HealthGoal {
    let desired = builder.desired;
    let mut read = builder.observed.addons.read.values();
    if desired.has_cni || read.any(AddonRead::brings_network) {
        HealthGoal::Ready
    } else if desired.addons.is_empty() || desired.cni_managed_by.is_some() {
        HealthGoal::Registered
    } else {
        HealthGoal::Settled
    }
}

/// Why the cluster is not healthy although all its nodes have joined. An earlier run may have ended before the cluster was
/// healthy.
fn problem(builder: &Builder<'_>) -> Option<String> {
    match &builder.observed.kubernetes {
        KubernetesSeen::NotAsked => None,
        KubernetesSeen::Silent(reason) => {
            Some(format!("the Kubernetes API does not answer: {reason}"))
        }
        KubernetesSeen::Answers(registered) => {
            // etcd members that belong to orphans are reported with the orphans. They are not a reason to wait.
            let is_told = orphan::explain_strange_members(builder);
            let members = registered.strange_members.clone().filter(|_| !is_told);
            registered.problem.clone().or(members)
        }
    }
}
