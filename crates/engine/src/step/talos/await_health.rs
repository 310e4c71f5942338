//! Waits until the cluster is healthy, with the same health checks as talosctl.

use std::collections::BTreeSet;
use std::time::Duration;

use talmox_plan::plan::{AwaitHealth, HealthGoal};
use talmox_plan::planning::{WAY_OUT, two_clusters};
use talmox_talos_api::Look;
use talmox_talos_api::health::{
    Check, ClusterHealth, HealthSettings, NodeView, Seen, State, Subject, look,
};

use super::{Awaited, ExplainedWait, locate, or_wait};
use crate::kube::{KubeClient, NodeFacts};
use crate::node_network::WaitReason;
use crate::step::{Done, RunStep, StepCode, StepContext, StepError};
use crate::timeouts::POD_NETWORK;

/// Hint for a node that runs and is not registered in Kubernetes.
const NOT_REGISTERED: &str = "run the same command to resume: it restarts the kubelet of a running node that Kubernetes does not list \
                              (after kubectl delete node, or with new control planes), and then the node registers again";

impl RunStep for AwaitHealth {
    async fn run(&self, context: &StepContext) -> Result<Done, StepError> {
        await_health(self, context).await
    }
}

async fn await_health(step: &AwaitHealth, context: &StepContext) -> Result<Done, StepError> {
    let has_cni = step.goal == HealthGoal::Ready;
    let grace = match step.goal {
        HealthGoal::Settled => POD_NETWORK,
        HealthGoal::Ready | HealthGoal::Registered => Duration::ZERO,
    };
    let mut well = None;
    let mut health = ClusterHealth::new(context.run.clock, HealthSettings { has_cni });
    let kube = context.cluster()?.kube()?;
    let awaited = Awaited {
        failure: "the cluster does not become healthy".to_owned(),
        what: "the cluster to be healthy".to_owned(),
    };
    let mut wait =
        ExplainedWait::new(context, awaited).about(step.nodes.iter().map(|node| &node.own));
    let subjects = loop {
        break or_wait!(wait, all(step, context).await?);
    };
    loop {
        let looks = Box::pin(async { tokio::join!(look(&subjects), kube.view()) });
        let (nodes, view) = context.wait(looks).await?;
        health.update(&nodes, view.as_ref().ok());
        let open = open_checks(step, &health);
        let Some(&(check, reason)) = open.first() else {
            let has_network = has_cni || view.is_ok_and(|view| view.has_network);
            // The grace period starts when all checks pass.
            let end = well.get_or_insert_with(|| context.run.clock.deadline(grace));
            if has_network || end.has_passed() {
                break;
            }
            wait.not_yet("waiting for an add-on to create the pod network").await?;
            continue;
        };
        if let Some(message) = two_clusters(nodes.iter().filter_map(voters)) {
            return Err(StepError::failed(StepCode::EtcdDivided, message).hint(WAY_OUT));
        }
        let cause = match view {
            Ok(_) if check == Check::NodesReady => context.wait(why_unready(step, &kube)).await?,
            Ok(_) => None,
            Err(error) => Some(error.progress()),
        };
        let cause = cause.map_or_else(String::new, |cause| format!(": {cause}"));
        let (number, all) = (open.len(), health.reports().len());
        let (topic, reason) = (check.topic(), first_of(reason));
        let text = format!("waiting for {number} of {all} checks: {topic} ({reason}{cause})");
        let advice = (check == Check::NodesReport).then_some(NOT_REGISTERED);
        wait.not_yet(WaitReason { text, advice }).await?;
    }
    for report in health.reports() {
        if let Some(unavailable) = &report.unavailable {
            context.note(format!("not checked whether {} ({unavailable})", report.check.name()));
        }
    }
    if !has_cni {
        note_unready(step, &health, &kube, context).await;
    }
    Ok(Done::Already)
}

/// The required checks that do not pass, with the reasons. A cordoned node is not waited for: a user cordoned it on purpose.
fn open_checks<'a>(step: &AwaitHealth, health: &'a ClusterHealth) -> Vec<(Check, &'a str)> {
    let is_required = |check: Check| match check {
        Check::EtcdOnControlPlanes => !step.allows_other_members,
        Check::Schedulable => false,
        _ => true,
    };
    let open = health.reports().iter().filter_map(|report| match &report.state {
        State::Waiting(why) if is_required(report.check) => Some((report.check, why.as_str())),
        _ => None,
    });
    open.collect()
}

/// The voting members of etcd, as a node reports them.
fn voters(node: &NodeView) -> Option<BTreeSet<&str>> {
    let Seen::Is(members) = &node.etcd_members else { return None };
    let voters = members.iter().filter(|member| !member.is_learner);
    Some(voters.map(|member| member.hostname.as_str()).filter(|name| !name.is_empty()).collect())
}

/// The reason of the first node, and the number of further reasons.
fn first_of(reasons: &str) -> String {
    let mut all = reasons.split("; ");
    let first = all.next().unwrap_or_default();
    match all.count() {
        0 => first.to_owned(),
        more => format!("{first}, and {more} more"),
    }
}

/// The reason of the first node that is not ready. None if all nodes are ready.
async fn why_unready(step: &AwaitHealth, kube: &KubeClient) -> Option<String> {
    let nodes = kube.nodes().await.ok()?;
    let is_own = |node: &NodeFacts| step.nodes.iter().any(|own| own.name == node.name);
    let unready = nodes.into_iter().find(|node| !node.is_ready && is_own(node))?;
    Some(unready.reason)
}

/// The nodes with their addresses. `NotYet` until all addresses are known.
async fn all(step: &AwaitHealth, context: &StepContext) -> Result<Look<Vec<Subject>>, StepError> {
    let mut subjects = vec![];
    for node in &step.nodes {
        let address = match locate(node, context).await {
            Look::Done(address) => address,
            Look::NotYet(reason) => {
                return Ok(Look::NotYet(format!("{}: {reason}", node.name)));
            }
        };
        subjects.push(Subject {
            name: node.name.clone(),
            is_control_plane: node.is_control_plane,
            addresses: vec![address],
            client: context.cluster()?.client(address)?,
        });
    }
    Ok(Look::Done(subjects))
}

/// Reports how many nodes are not ready. Nodes are not expected to be ready without a pod network.
async fn note_unready(
    step: &AwaitHealth,
    health: &ClusterHealth,
    kube: &KubeClient,
    context: &StepContext,
) {
    // An error is ignored here, because Kubernetes answered a moment ago.
    let nodes = kube.nodes().await.unwrap_or_default();
    let is_own = |node: &&NodeFacts| step.nodes.iter().any(|own| own.name == node.name);
    let unready = nodes.iter().filter(is_own).filter(|node| !node.is_ready).count();
    if unready == 0 {
        return;
    }
    let skipped = health.reports().iter().filter(|one| matches!(one.state, State::Skipped(_)));
    let skipped: Vec<&str> = skipped.map(|report| report.check.name()).collect();
    context.note(format!(
        "{unready} of {} nodes are registered, NotReady: CNI missing. \
         They become ready with a network add-on. Not checked: {}",
        step.nodes.len(),
        skipped.join("; ")
    ));
}
