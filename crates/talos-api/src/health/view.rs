//! Observed state of a node in one round of health checks.

use std::fmt;
use std::net::IpAddr;

use tokio::task::JoinSet;
use tonic::Code;
use tracing::Instrument as _;

use crate::client::{Client, Member, ResourceKind, Service};
use crate::error::TalosError;
use crate::etcd_state::{self, EtcdState};

/// Node to observe.
#[derive(Clone, Debug)]
pub struct Subject {
    pub name: String,
    pub is_control_plane: bool,
    /// All addresses of the node. Kubernetes uses the first one.
    pub addresses: Vec<IpAddr>,
    pub client: Client,
}

/// Observed value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Seen<T> {
    Is(T),
    /// The node cannot report the value. This is not a problem of the node.
    Unavailable(Unavailable),
    /// The value could not be read, for this reason.
    Unknown(String),
}

impl<T> Seen<T> {
    pub(super) fn unavailable(&self) -> Option<Unavailable> {
        match self {
            Self::Unavailable(why) => Some(*why),
            Self::Is(_) | Self::Unknown(_) => None,
        }
    }

    fn and_then<U>(self, then: impl FnOnce(T) -> Seen<U>) -> Seen<U> {
        match self {
            Self::Is(value) => then(value),
            Self::Unavailable(why) => Seen::Unavailable(why),
            Self::Unknown(why) => Seen::Unknown(why),
        }
    }
}

/// Reason why a node cannot report a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Unavailable {
    /// The Talos version of the node does not have the resource.
    TooOld,
    /// The client certificate lacks the required role.
    NotAllowed,
}

impl fmt::Display for Unavailable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::TooOld => "this version of Talos does not report it",
            Self::NotAllowed => "the client certificate lacks the role to read it",
        })
    }
}

/// Observed state of a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeView {
    pub name: String,
    pub is_control_plane: bool,
    pub addresses: Vec<IpAddr>,
    /// Version tag of Talos.
    pub version: Seen<String>,
    pub services: Seen<Vec<Service>>,
    /// etcd members that the own member of the node reports; empty for a worker.
    pub etcd_members: Seen<Vec<Member>>,
    /// Memory in bytes.
    pub memory: Seen<u64>,
    /// Size of the EPHEMERAL partition, in bytes.
    pub ephemeral: Seen<u64>,
    pub diagnostics: Seen<Vec<String>>,
    /// Stage of the machine, such as `running` or `booting`.
    pub stage: Seen<String>,
}

/// Observes all nodes at the same time. The views are in the order of `subjects`.
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
        // The node would not answer further requests either. One reason and one timeout are enough.
        Err(error) => return unseen(subject, &error.reason()),
    };
    // All requests are sent at the same time over the open connection.
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

/// Reads the services, and the etcd members if the etcd service runs. An etcd that is down never answers.
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

/// Converts an answer. If the resource type is unknown, Talos answers with the code of a missing permission.
fn reported<T>(answer: Result<T, TalosError>) -> Seen<T> {
    match answer {
        Err(TalosError::No { code: Code::PermissionDenied, message, .. }) => {
            let is_unknown = message.contains("is not supported");
            Seen::Unavailable(if is_unknown {
                Unavailable::TooOld
            } else {
                Unavailable::NotAllowed
            })
        }
        other => seen(other),
    }
}

async fn ephemeral(client: &Client) -> Seen<u64> {
    reported(client.get(ResourceKind::VOLUME_STATUS, "EPHEMERAL").await).and_then(|volume| {
        volume
            .and_then(|volume| volume.text("size")?.parse().ok())
            .map_or_else(|| Seen::Unknown("EPHEMERAL does not exist yet".to_owned()), Seen::Is)
    })
}

async fn diagnostics(client: &Client) -> Seen<Vec<String>> {
    let found = client.list(ResourceKind::DIAGNOSTIC).await;
    reported(found.map(|all| {
        let text = |one: &crate::client::Resource| one.text("message").unwrap_or(one.id.clone());
        all.iter().map(text).collect()
    }))
}

async fn stage(client: &Client) -> Seen<String> {
    seen(client.get(ResourceKind::MACHINE_STATUS, "machine").await).and_then(|found| match found {
        Some(status) => Seen::Is(status.text("stage").unwrap_or_default()),
        None => Seen::Unknown("the node does not report its stage yet".to_owned()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::address::node_address;
    use crate::error::Call;

    #[test]
    fn a_missing_resource_type_is_distinguished_from_a_missing_role() {
        let rejected = |message: &str| {
            let call = Call { operation: "List", node: node_address("10.0.0.11") };
            let code = Code::PermissionDenied;
            reported::<()>(Err(TalosError::No { call, code, message: message.to_owned() }))
        };
        let lacking = "resource type \"Diagnostics.runtime.talos.dev\" is not supported";
        assert_eq!(rejected(lacking), Seen::Unavailable(Unavailable::TooOld));
        assert_eq!(rejected("not authorized"), Seen::Unavailable(Unavailable::NotAllowed));
    }
}
