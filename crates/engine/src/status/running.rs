//! What runs now: where each node is, and in which versions. Far less than a whole status, and as quick.

use std::net::IpAddr;
use std::sync::Arc;

use talmox_clock::Clock;
use talmox_plan::desired::Contact;
use talmox_talos_api::Look;
use tokio::task::JoinSet;

use super::gather::{Asking, in_order, kubernetes, registered_as, soon};
use super::{Known, StatusSources, Subject};
use crate::kube::NodeFacts;
use crate::locate::{confirm, locate};
use crate::other_system::door;

/// What answers of a cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Running {
    /// The version of the Kubernetes API.
    pub kubernetes: Known<String>,
    /// In the order in which they were asked for.
    pub nodes: Vec<NodeRunning>,
}

/// What answers of a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeRunning {
    pub address: Known<IpAddr>,
    /// The version of Talos; nothing if it runs another system.
    pub talos: Option<Known<String>>,
    /// The version of its kubelet; nothing if it runs another system.
    pub kubernetes: Option<Known<String>>,
}

/// Looks at what runs. Nodes without a VM are not asked.
pub async fn running(subjects: &[Subject], sources: &StatusSources) -> Running {
    let asking = Arc::new(Asking {
        pve: sources.pve.clone(),
        cluster: sources.cluster.clone(),
        end: Clock::real().deadline(sources.limit),
    });
    let mut asked = JoinSet::new();
    for (at, subject) in subjects.iter().cloned().enumerate() {
        let asking = Arc::clone(&asking);
        asked.spawn(async move { (at, Box::pin(itself(&subject, &asking)).await) });
    }
    let has_talos = subjects.iter().any(|subject| subject.is_talos);
    let cluster = async {
        if has_talos {
            return kubernetes(&asking).await;
        }
        let none = || "there is no Kubernetes".to_owned();
        (Known::Unknown(none()), Known::Unknown(none()))
    };
    let (answers, (kubernetes, registered)) =
        Box::pin(async { tokio::join!(asked.join_all(), cluster) }).await;
    let nodes = subjects.iter().zip(in_order(answers));
    let nodes = nodes.map(|(subject, own)| one(subject, own, &registered)).collect();
    Running { kubernetes, nodes }
}

/// Where a node says that it is, and what runs there.
type Itself = (Known<IpAddr>, Option<Known<String>>);

fn one(subject: &Subject, own: Itself, registered: &Known<Vec<NodeFacts>>) -> NodeRunning {
    let (address, talos) = own;
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
        // Where the inventory has it, and nothing answers.
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
        _ => "nobody asked".to_owned(),
    }
}

async fn itself(subject: &Subject, asking: &Asking) -> Itself {
    let Some(own) = &subject.own else {
        let none = || "it has no VM that runs".to_owned();
        return (Known::Unknown(none()), subject.is_talos.then(|| Known::Unknown(none())));
    };
    let reach = &asking.cluster.settings.reach;
    let address = soon(asking.end, async {
        let look = match (subject.is_talos, subject.contact) {
            (false, Contact::At(address)) => match confirm(address, &own.vm, &asking.pve).await {
                Look::Done(address) => Look::Done(address),
                Look::NotYet(_) => door(address, reach).await.map(|()| address),
            },
            (_, contact) => locate(contact, &own.vm, &asking.pve).await,
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
        Known::Is(address) => soon(asking.end, version(*address, asking)).await,
    };
    (address, Some(talos))
}

async fn version(address: IpAddr, asking: &Asking) -> Result<String, String> {
    let client = asking.cluster.client(address).map_err(|error| error.to_string())?;
    let version = client.version().await.map_err(|error| error.reason())?;
    Ok(version.tag)
}
