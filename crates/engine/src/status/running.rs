//! Addresses and running versions of the nodes: a small part of the status.

use std::net::IpAddr;
use std::sync::Arc;

use talmox_plan::desired::Contact;
use talmox_talos_api::Look;
use tokio::task::JoinSet;

use super::gather::{in_order, kubernetes, registered_as};
use super::requests::{StatusRequests, by_deadline};
use super::{Known, StatusSources, Subject};
use crate::kube::NodeFacts;
use crate::locate::{confirm, locate};
use crate::other_system::ssh_port;

/// Running versions of a cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Running {
    /// The version of the Kubernetes API.
    pub kubernetes: Known<String>,
    /// The nodes, in the order of the argument `subjects`.
    pub nodes: Vec<NodeRunning>,
}

/// Address and running versions of a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeRunning {
    pub address: Known<IpAddr>,
    /// The version of Talos. None if the node runs another operating system.
    pub talos: Option<Known<String>>,
    /// The version of the kubelet. None if the node runs another operating system.
    pub kubernetes: Option<Known<String>>,
}

/// Requests addresses and running versions. Nodes without a VM get no request.
pub async fn running(subjects: &[Subject], sources: &StatusSources) -> Running {
    let requests = Arc::new(StatusRequests::new(sources));
    let mut asked = JoinSet::new();
    for (index, subject) in subjects.iter().cloned().enumerate() {
        let requests = Arc::clone(&requests);
        asked.spawn(async move { (index, Box::pin(ask_node(&subject, &requests)).await) });
    }
    let has_talos = subjects.iter().any(|subject| subject.is_talos);
    let cluster = async {
        if has_talos {
            return kubernetes(&requests).await;
        }
        let none = || "the cluster has no Kubernetes".to_owned();
        (Known::Unknown(none()), Known::Unknown(none()))
    };
    let (answers, (kubernetes, registered)) =
        Box::pin(async { tokio::join!(asked.join_all(), cluster) }).await;
    let nodes = subjects.iter().zip(in_order(answers));
    let nodes = nodes.map(|(subject, answer)| node_running(subject, answer, &registered)).collect();
    Running { kubernetes, nodes }
}

/// Address of a node, and its version of Talos. The version is None if the node runs another operating system.
type AddressAndVersion = (Known<IpAddr>, Option<Known<String>>);

fn node_running(
    subject: &Subject,
    (address, talos): AddressAndVersion,
    registered: &Known<Vec<NodeFacts>>,
) -> NodeRunning {
    if !subject.is_talos {
        return NodeRunning { address, talos: None, kubernetes: None };
    }
    let registered_at = registered.get().and_then(|nodes| {
        nodes.iter().find(|node| node.name == subject.name)?.internal_addresses.first().copied()
    });
    let is_there = matches!(talos, Some(Known::Is(_)));
    let address = match (address, registered_at) {
        (Known::Is(address), _) if is_there => Known::Is(address),
        (_, Some(address)) => Known::Is(address),
        (Known::Is(address), None) if subject.contact == Contact::AskAgent => Known::Is(address),
        // No machine answers at the address in the inventory.
        (Known::Is(_), None) => Known::Unknown(why(talos.as_ref())),
        (unknown, None) => unknown,
    };
    let kubernetes = match registered_as(registered, subject) {
        Known::Is(found) => Known::Is(found.version),
        Known::Unknown(why) => Known::Unknown(why),
    };
    NodeRunning { address, talos, kubernetes: Some(kubernetes) }
}

fn why(talos: Option<&Known<String>>) -> String {
    match talos {
        Some(Known::Unknown(why)) => why.clone(),
        _ => "the node was not asked".to_owned(),
    }
}

async fn ask_node(subject: &Subject, requests: &StatusRequests) -> AddressAndVersion {
    let Some(own) = &subject.own else {
        let none = || "it has no VM that runs".to_owned();
        return (Known::Unknown(none()), subject.is_talos.then(|| Known::Unknown(none())));
    };
    let reach = &requests.cluster.settings.reach;
    let address = by_deadline(requests.deadline, async {
        let look = match (subject.is_talos, subject.contact) {
            (false, Contact::At(address)) => match confirm(address, &own.vm, &requests.pve).await {
                Look::Done(address) => Look::Done(address),
                Look::NotYet(_) => ssh_port(address, reach).await.map(|()| address),
            },
            (_, contact) => locate(contact, &own.vm, &requests.pve).await,
        };
        match look {
            Look::Done(address) => Ok(address),
            Look::NotYet(reason) => Err(reason),
        }
    })
    .await;
    if !subject.is_talos {
        return (address, None);
    }
    let talos = match &address {
        Known::Unknown(why) => Known::Unknown(why.clone()),
        Known::Is(address) => by_deadline(requests.deadline, version(*address, requests)).await,
    };
    (address, Some(talos))
}

async fn version(address: IpAddr, requests: &StatusRequests) -> Result<String, String> {
    let client = requests.cluster.client(address).map_err(|error| error.to_string())?;
    let version = client.version().await.map_err(|error| error.reason())?;
    Ok(version.tag)
}
