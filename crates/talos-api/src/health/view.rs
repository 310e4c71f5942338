//! What is seen of a node in one round.

use std::fmt;
use std::net::IpAddr;

use tokio::task::JoinSet;
use tonic::Code;
use tracing::Instrument as _;

use crate::client::{Client, Member, ResourceKind, Service};
use crate::error::TalosError;
use crate::etcd_state::{self, EtcdState};

/// A node to look at.
#[derive(Clone, Debug)]
pub struct Subject {
    pub name: String,
    pub is_control_plane: bool,
    /// All its addresses, the first of which is how Kubernetes knows it.
    pub addresses: Vec<IpAddr>,
    pub client: Client,
}

/// Something that was asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Seen<T> {
    Is(T),
    /// The node will never tell, and that is no illness of it.
    Untold(Untold),
    /// Why it is not known.
    Unknown(String),
}

impl<T> Seen<T> {
    pub(super) fn untold(&self) -> Option<Untold> {
        match self {
            Self::Untold(why) => Some(*why),
            Self::Is(_) | Self::Unknown(_) => None,
        }
    }

    fn and_then<U>(self, then: impl FnOnce(T) -> Seen<U>) -> Seen<U> {
        match self {
            Self::Is(value) => then(value),
            Self::Untold(why) => Seen::Untold(why),
            Self::Unknown(why) => Seen::Unknown(why),
        }
    }
}

/// Why a node does not tell.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Untold {
    /// Its release has no such resources.
    TooOld,
    /// Who we are to it may not ask.
    NotAllowed,
}

impl fmt::Display for Untold {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::TooOld => "this version of Talos does not tell",
            Self::NotAllowed => "we may not ask for it",
        })
    }
}

/// A node as it was seen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeView {
    pub name: String,
    pub is_control_plane: bool,
    pub addresses: Vec<IpAddr>,
    /// The tag of its version.
    pub version: Seen<String>,
    pub services: Seen<Vec<Service>>,
    /// As its own member sees them; a worker has none to ask.
    pub etcd_members: Seen<Vec<Member>>,
    /// In bytes.
    pub memory: Seen<u64>,
    /// The size of the partition for data, in bytes.
    pub ephemeral: Seen<u64>,
    pub diagnostics: Seen<Vec<String>>,
    /// `running`, `booting`…
    pub stage: Seen<String>,
}

/// Looks at all nodes at the same time. The views come in the order of the subjects.
pub async fn look(subjects: &[Subject]) -> Vec<NodeView> {
    let mut tasks = JoinSet::new();
    for (at, subject) in subjects.iter().cloned().enumerate() {
        tasks.spawn(async move { (at, Box::pin(look_at(&subject)).await) }.in_current_span());
    }
    let mut views = tasks.join_all().await;
    views.sort_by_key(|(at, _)| *at);
    views.into_iter().map(|(_, view)| view).collect()
}

async fn look_at(subject: &Subject) -> NodeView {
    let client = &subject.client;
    let version = match client.version().await {
        Ok(version) => Seen::Is(version.tag),
        // Nothing else will be answered: one reason is enough, and one wait.
        Err(error) => return unseen(subject, &error.reason()),
    };
    // All at once, over the connection that is open now.
    let ((services, etcd_members), memory, ephemeral, diagnostics, stage) = tokio::join!(
        services_and_members(subject),
        client.memory(),
        ephemeral(client),
        diagnostics(client),
        stage(client),
    );
    NodeView {
        name: subject.name.clone(),
        is_control_plane: subject.is_control_plane,
        addresses: subject.addresses.clone(),
        version,
        services,
        etcd_members,
        memory: seen(memory),
        ephemeral,
        diagnostics,
        stage,
    }
}

/// etcd is asked only where its service runs: one that is down never answers.
async fn services_and_members(subject: &Subject) -> (Seen<Vec<Service>>, Seen<Vec<Member>>) {
    let services = match subject.client.services().await {
        Ok(services) => services,
        Err(error) => return (Seen::Unknown(error.reason()), Seen::Unknown(error.reason())),
    };
    if !subject.is_control_plane {
        return (Seen::Is(services), Seen::Is(vec![]));
    }
    let service = services.iter().find(|service| service.id == etcd_state::ETCD).cloned();
    let members = match EtcdState::of(&subject.client, service).await {
        Ok(EtcdState::Member(members)) => Seen::Is(members),
        Ok(other) => Seen::Unknown(other.obstacle().unwrap_or_default()),
        Err(error) => Seen::Unknown(error.reason()),
    };
    (Seen::Is(services), members)
}

fn unseen(subject: &Subject, why: &str) -> NodeView {
    NodeView {
        name: subject.name.clone(),
        is_control_plane: subject.is_control_plane,
        addresses: subject.addresses.clone(),
        version: Seen::Unknown(why.to_owned()),
        services: Seen::Unknown(why.to_owned()),
        etcd_members: Seen::Unknown(why.to_owned()),
        memory: Seen::Unknown(why.to_owned()),
        ephemeral: Seen::Unknown(why.to_owned()),
        diagnostics: Seen::Unknown(why.to_owned()),
        stage: Seen::Unknown(why.to_owned()),
    }
}

fn seen<T>(answer: Result<T, TalosError>) -> Seen<T> {
    match answer {
        Ok(answer) => Seen::Is(answer),
        Err(error) => Seen::Unknown(error.reason()),
    }
}

/// Kinds of resources that a release does not have are refused with the code of what is not allowed.
fn told<T>(answer: Result<T, TalosError>) -> Seen<T> {
    match answer {
        Err(TalosError::No { code: Code::PermissionDenied, message, .. }) => {
            let is_unknown = message.contains("is not supported");
            Seen::Untold(if is_unknown { Untold::TooOld } else { Untold::NotAllowed })
        }
        other => seen(other),
    }
}

async fn ephemeral(client: &Client) -> Seen<u64> {
    told(client.get(ResourceKind::VOLUME_STATUS, "EPHEMERAL").await).and_then(|volume| {
        volume
            .and_then(|volume| volume.text("size")?.parse().ok())
            .map_or_else(|| Seen::Unknown("EPHEMERAL is not there yet".to_owned()), Seen::Is)
    })
}

async fn diagnostics(client: &Client) -> Seen<Vec<String>> {
    let found = client.list(ResourceKind::DIAGNOSTIC).await;
    told(found.map(|all| {
        let text = |one: &crate::client::Resource| one.text("message").unwrap_or(one.id.clone());
        all.iter().map(text).collect()
    }))
}

async fn stage(client: &Client) -> Seen<String> {
    seen(client.get(ResourceKind::MACHINE_STATUS, "machine").await).and_then(|found| match found {
        Some(status) => Seen::Is(status.text("stage").unwrap_or_default()),
        None => Seen::Unknown("it says nothing of its stage yet".to_owned()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::address::node_address;
    use crate::error::Call;

    #[test]
    fn what_a_release_lacks_is_not_what_we_may_not_ask() {
        let refused = |message: &str| {
            let call = Call { operation: "List", node: node_address("10.0.0.11") };
            let code = Code::PermissionDenied;
            told::<()>(Err(TalosError::No { call, code, message: message.to_owned() }))
        };
        let lacking = "resource type \"Diagnostics.runtime.talos.dev\" is not supported";
        assert_eq!(refused(lacking), Seen::Untold(Untold::TooOld));
        assert_eq!(refused("not authorized"), Seen::Untold(Untold::NotAllowed));
    }
}
