//! What is seen of a node in one round.

use std::net::IpAddr;

use tokio::task::JoinSet;
use tonic::Code;

use crate::client::{Client, Member, ResourceKind, Service};
use crate::error::TalosError;

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
    /// This version of Talos does not tell.
    Untold,
    /// Why it is not known.
    Unknown(String),
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
    /// As its own member sees them; only of control planes.
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
        tasks.spawn(async move { (at, Box::pin(look_at(&subject)).await) });
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
    let (services, etcd_members, memory, ephemeral, diagnostics, stage) = tokio::join!(
        client.services(),
        etcd_members(subject),
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
        services: seen(services),
        etcd_members,
        memory: seen(memory),
        ephemeral,
        diagnostics,
        stage,
    }
}

async fn etcd_members(subject: &Subject) -> Seen<Vec<Member>> {
    if subject.is_control_plane { seen(subject.client.etcd_members().await) } else { Seen::Untold }
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

/// Kinds of resources that older versions do not have are answered with a refusal.
fn told<T>(answer: Result<T, TalosError>) -> Seen<T> {
    match answer {
        Err(TalosError::No { code: Code::PermissionDenied, .. }) => Seen::Untold,
        other => seen(other),
    }
}

async fn ephemeral(client: &Client) -> Seen<u64> {
    match told(client.get(ResourceKind::VOLUME_STATUS, "EPHEMERAL").await) {
        Seen::Is(volume) => volume
            .and_then(|volume| volume.text("size")?.parse().ok())
            .map_or_else(|| Seen::Unknown("EPHEMERAL is not there yet".to_owned()), Seen::Is),
        Seen::Untold => Seen::Untold,
        Seen::Unknown(why) => Seen::Unknown(why),
    }
}

async fn diagnostics(client: &Client) -> Seen<Vec<String>> {
    let found = client.list(ResourceKind::DIAGNOSTIC).await;
    told(found.map(|all| {
        let text = |one: &crate::client::Resource| one.text("message").unwrap_or(one.id.clone());
        all.iter().map(text).collect()
    }))
}

async fn stage(client: &Client) -> Seen<String> {
    let found = seen(client.get(ResourceKind::MACHINE_STATUS, "machine").await);
    match found {
        Seen::Is(Some(status)) => Seen::Is(status.text("stage").unwrap_or_default()),
        Seen::Is(None) => Seen::Unknown("it says nothing of its stage yet".to_owned()),
        Seen::Untold => Seen::Untold,
        Seen::Unknown(why) => Seen::Unknown(why),
    }
}
