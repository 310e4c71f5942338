//! What is to be done about a cluster as a whole: its shared address, its files, its health, its
//! add-ons.

use std::time::Duration;

use super::action::{
    Action, AwaitHealth, AwaitVip, HealthGoal, SharedAddress, TalosNode, WriteClientFiles,
};
use super::change::{Change, Class, FieldChange, Object};
use super::place::Placed;
use super::step::StepId;
use super::{Builder, addon, preflight, removed, talos};
use crate::observe::{AddonRead, KubernetesSeen, VipSeen};

/// What concerns the cluster as a whole, once its nodes have joined.
pub(super) fn plan(
    builder: &mut Builder<'_>,
    nodes: &[&Placed<'_>],
    bootstrap: Option<&StepId>,
    joined: &[StepId],
) {
    let desired = builder.desired;
    let all: Vec<TalosNode> = nodes.iter().map(|placed| talos::talos_node(placed)).collect();
    let is_new = !joined.is_empty() || bootstrap.is_some();
    let mut ready: Vec<StepId> = joined.to_vec();
    let mut vip = None;
    let mut open = vec![];
    builder.findings.extend(preflight::virtual_address(builder, bootstrap.is_some()));
    let is_silent = builder.world.vip == VipSeen::Silent;
    if let Some(address) = desired.vip.filter(|_| bootstrap.is_some() || is_silent) {
        let deadline = desired.timeouts.bootstrap;
        let action = Action::AwaitVip(AwaitVip { address, port: 6443, deadline });
        let after = bootstrap.map_or(joined, std::slice::from_ref);
        vip = Some(builder.steps.add("vip", None, after.to_vec(), action));
        ready.extend(vip.clone());
        open.push(FieldChange::new("vip", Some("silent".into()), Some("answers".into())));
    }
    let trouble = trouble(builder).filter(|_| !is_new);
    let is_changed = is_new || trouble.is_some();
    open.extend(trouble.map(|why| FieldChange::new("health", Some(why), Some("well".into()))));
    if !is_new && !open.is_empty() {
        let object = Object::Cluster(desired.cluster.clone());
        builder.changes.push(Change::planned(object, Class::Live, open));
    }
    if is_new || !builder.options.has_client_files {
        if !is_new {
            let fields = vec![FieldChange::set("client files", "kubeconfig, talosconfig")];
            let object = Object::Cluster(desired.cluster.clone());
            builder.changes.push(Change::planned(object, Class::Create, fields));
        }
        let action = Action::WriteClientFiles(WriteClientFiles {
            cluster: desired.cluster.clone(),
            server: desired.endpoint.clone().unwrap_or_default(),
            shared: shared_address(builder, vip.clone()),
            endpoints: all.iter().filter(|node| node.is_control_plane).cloned().collect(),
            nodes: all.clone(),
            deadline: desired.timeouts.task
                + vip.map_or(Duration::ZERO, |_| desired.timeouts.bootstrap),
        });
        // Without the shared address there is another way in.
        builder.steps.add("kubeconfig", None, joined.to_vec(), action);
    }
    // Without a network for pods nothing is ready before the add-on that brings one.
    let goal = goal(builder);
    let deadline = desired.timeouts.health;
    let health = Action::AwaitHealth(AwaitHealth { nodes: all, goal, deadline });
    if is_changed && desired.has_cni {
        ready = vec![builder.steps.add("cluster/health", None, ready, health.clone())];
    }
    let mut applied = vec![];
    for addon in &desired.addons {
        applied.extend(addon::apply(builder, addon, &ready));
    }
    if (is_changed || !applied.is_empty()) && !desired.has_cni {
        builder.steps.add("cluster/health", None, ready.into_iter().chain(applied), health);
    }
}

/// The shared address, if that is where clients find the Kubernetes API.
fn shared_address(builder: &Builder<'_>, awaited_by: Option<StepId>) -> Option<SharedAddress> {
    let address = builder.desired.vip?;
    let host = if address.is_ipv4() { address.to_string() } else { format!("[{address}]") };
    let own = format!("https://{host}:6443");
    let endpoint = builder.desired.endpoint.as_ref();
    let is_endpoint = endpoint.is_some_and(|url| url.trim_end_matches('/') == own);
    is_endpoint.then_some(SharedAddress { address, port: 6443, awaited_by })
}

/// Nodes become ready with a network for pods: by Talos, by an add-on, or by whoever has brought one.
fn goal(builder: &Builder<'_>) -> HealthGoal {
    let desired = builder.desired;
    let mut read = builder.world.addons.read.values();
    if desired.has_cni || read.any(AddonRead::brings_network) {
        HealthGoal::Ready
    } else if desired.addons.is_empty() {
        HealthGoal::Registered
    } else {
        HealthGoal::Settled
    }
}

/// What keeps a cluster from being well whose nodes have all joined: an earlier run may have ended
/// before it was.
fn trouble(builder: &Builder<'_>) -> Option<String> {
    match &builder.world.kubernetes {
        KubernetesSeen::NotAsked => None,
        KubernetesSeen::Silent(reason) => {
            Some(format!("the Kubernetes API does not answer: {reason}"))
        }
        KubernetesSeen::Answers(registered) => {
            // They go with the nodes that the inventory has no longer, and nobody waits for that here.
            let is_told = removed::explain_strange_members(builder);
            let members = registered.strange_members.clone().filter(|_| !is_told);
            registered.trouble.clone().or(members)
        }
    }
}
