//! Waits until a node has joined the cluster.

use talmox_talos_api::Client;

use super::settled::await_settled;
use super::{StepWait, locate, or_wait};
use crate::kube::KubeClient;
use crate::plan::{AwaitMember, TalosNode};
use crate::step::{Done, StepContext, StepError};

pub(in crate::step) async fn await_member(
    step: &AwaitMember,
    context: &StepContext,
) -> Result<Done, StepError> {
    let node = &step.node;
    let kube = context.cluster()?.kube()?;
    let what = format!("{} does not join", node.name);
    let mut wait = StepWait::new(context, what).about([&node.own]);
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
    if let Some(shape) = &step.shape {
        let what = format!("{} is not what its config says", node.name);
        let mut wait = StepWait::new(context, what).about([&node.own]);
        let address = loop {
            break or_wait!(wait, locate(node, context).await);
        };
        await_settled(shape, address, &mut wait, context).await?;
    }
    Ok(Done::Already)
}

/// Why it has no vote yet.
async fn missing_in_etcd(client: &Client, node: &TalosNode) -> Option<String> {
    match client.etcd_members().await {
        Ok(members) => {
            let own = members.iter().find(|member| member.hostname == node.name);
            match own {
                Some(member) if !member.is_learner => None,
                Some(_) => Some("its etcd is still learning".to_owned()),
                None => Some("it is no member of etcd yet".to_owned()),
            }
        }
        // What keeps the service from running says more than that it does not run.
        Err(error) => Some(match client.services().await {
            Ok(services) => services
                .iter()
                .find(|service| service.id == "etcd" && !service.is_fine())
                .map_or_else(|| error.reason(), talmox_talos_api::client::Service::describe),
            Err(error) => error.reason(),
        }),
    }
}

async fn missing_in_kubernetes(kube: &KubeClient, node: &TalosNode) -> Option<String> {
    match kube.nodes().await {
        Ok(nodes) if nodes.iter().any(|known| known.name == node.name) => None,
        Ok(_) => Some("its kubelet has not registered it yet".to_owned()),
        Err(error) => Some(error.reason()),
    }
}
