//! Waits until a node has joined the cluster.

use talmox_plan::plan::{AwaitMember, TalosNode};
use talmox_talos_api::etcd_state::ETCD;
use talmox_talos_api::{Client, EtcdState, Look, wait};

use super::settled::{await_settled, network_of};
use super::{Awaited, ExplainedWait, api_server, locate, or_wait, unanswered};
use crate::kube::KubeClient;
use crate::step::{Done, RunStep, StepContext, StepError};

impl RunStep for AwaitMember {
    async fn run(&self, context: &StepContext) -> Result<Done, StepError> {
        await_member(self, context).await
    }
}

async fn await_member(step: &AwaitMember, context: &StepContext) -> Result<Done, StepError> {
    let node = &step.node;
    let kube = context.cluster()?.kube()?;
    let name = &node.name;
    let awaited =
        Awaited { failure: format!("{name} does not join"), what: format!("{name} to join") };
    let mut wait = ExplainedWait::new(context, awaited).about([&node.own]);
    loop {
        if node.is_control_plane {
            let address = or_wait!(wait, locate(node, context).await);
            let client = context.cluster()?.client(address)?;
            if let Some(reason) = context.wait(missing_in_etcd(&client, node)).await? {
                wait.not_yet(reason).await?;
                continue;
            }
        }
        match context.wait(missing_in_kubernetes(&kube, node)).await? {
            None => break,
            Some(reason) => wait.not_yet(reason).await?,
        }
    }
    if step.awaits_ready {
        await_ready(node, &kube, context).await?;
    }
    if let Some(shape) = &step.shape {
        let mut wait = ExplainedWait::new(context, network_of(name)).about([&node.own]);
        let address = loop {
            break or_wait!(wait, locate(node, context).await);
        };
        await_settled(shape, address, &mut wait, context).await?;
        // Kubernetes still lists a node that was restarted a moment ago as ready.
        let client = context.cluster()?.client(address)?;
        while let Some(reason) = context.wait(missing_service(&client, "kubelet")).await? {
            wait.not_yet(reason).await?;
        }
        if node.is_control_plane {
            // The next node is changed only if this control plane serves the cluster again.
            let awaited = Awaited {
                failure: format!("{name} does not serve the cluster"),
                what: format!("{name} to serve the cluster"),
            };
            let mut wait = ExplainedWait::new(context, awaited).about([&node.own]);
            while let Some(reason) = context.wait(missing_service(&client, ETCD)).await? {
                wait.not_yet(reason).await?;
            }
            let obstacle = || Box::pin(api_server::obstacle(&client, &kube, node));
            while let Some(reason) = context.wait(obstacle()).await? {
                wait.not_yet(reason).await?;
            }
        }
    }
    Ok(Done::Already)
}

/// Waits until the kubelet of the node runs and Kubernetes reports the node as ready. The kubelet is asked first, because Kubernetes
/// may still list the deleted VM of the node as ready.
async fn await_ready(
    node: &TalosNode,
    kube: &KubeClient,
    context: &StepContext,
) -> Result<(), StepError> {
    let name = &node.name;
    let awaited = Awaited {
        failure: format!("{name} does not become ready"),
        what: format!("{name} to be ready"),
    };
    let mut wait = ExplainedWait::new(context, awaited).about([&node.own]);
    loop {
        let address = or_wait!(wait, locate(node, context).await);
        let client = context.cluster()?.client(address)?;
        if let Some(reason) = context.wait(missing_service(&client, "kubelet")).await? {
            wait.not_yet(reason).await?;
            continue;
        }
        match context.wait(kube.node_cordon(&node.name)).await? {
            Ok(Some(found)) if found.is_ready => return Ok(()),
            Ok(Some(found)) => wait.not_yet(found.reason).await?,
            Ok(None) => wait.not_yet("waiting for the kubelet to register the node").await?,
            Err(error) => wait.not_yet(error.progress()).await?,
        }
    }
}

/// Reason why the node is not a voting member of etcd yet. None if it is one.
async fn missing_in_etcd(client: &Client, node: &TalosNode) -> Option<String> {
    match EtcdState::read(client).await {
        Ok(EtcdState::Member(members)) => {
            let own = members.iter().find(|member| member.hostname == node.name);
            match own {
                Some(member) if !member.is_learner => None,
                Some(_) => Some("waiting for its etcd to catch up with the others".to_owned()),
                None => Some("waiting for it to join etcd".to_owned()),
            }
        }
        Ok(other) => other.obstacle(),
        Err(error) => Some(unanswered(&error)),
    }
}

/// Reason why a service of the node is not healthy yet. None if it is healthy.
async fn missing_service(client: &Client, id: &str) -> Option<String> {
    match wait::service(client, id).await {
        Ok(Look::Done(())) => None,
        Ok(Look::NotYet(reason)) => Some(reason),
        Err(error) => Some(unanswered(&error)),
    }
}

async fn missing_in_kubernetes(kube: &KubeClient, node: &TalosNode) -> Option<String> {
    match kube.is_registered(&node.name).await {
        Ok(true) => None,
        Ok(false) => Some("waiting for the kubelet to register the node".to_owned()),
        Err(error) => Some(error.progress()),
    }
}
