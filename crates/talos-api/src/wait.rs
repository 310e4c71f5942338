//! Waiting for a condition of a node. The reported reason names the missing service or condition.

use talmox_clock::{Wait, WaitError};
use talmox_yaml::Node;

use crate::client::{Client, Health, ResourceKind};
use crate::error::TalosError;

/// Result of one check of a condition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Look<T> {
    Done(T),
    /// The condition is not met. The text names the missing service or condition.
    NotYet(String),
}

impl<T> Look<T> {
    pub fn map<U>(self, change: impl FnOnce(T) -> U) -> Look<U> {
        match self {
            Self::Done(found) => Look::Done(change(found)),
            Self::NotYet(reason) => Look::NotYet(reason),
        }
    }
}

/// Reason why a wait for a node ended before its condition was met.
#[derive(Clone, Debug, thiserror::Error)]
pub enum LookError {
    #[error(transparent)]
    Wait(#[from] WaitError),
    /// The node rejected the request, so waiting longer does not help.
    #[error(transparent)]
    Rejected(#[from] TalosError),
}

/// Calls `look` until it returns `Done`. After an error that may pass, it is called again.
pub async fn until<T>(
    wait: &mut Wait<'_>,
    mut look: impl AsyncFnMut() -> Result<Look<T>, TalosError>,
) -> Result<T, LookError> {
    loop {
        let reason = match look().await {
            Ok(Look::Done(found)) => return Ok(found),
            Ok(Look::NotYet(reason)) => reason,
            Err(error) if error.may_pass() => error.reason(),
            Err(error) => return Err(LookError::Rejected(error)),
        };
        wait.not_yet(reason).await?;
    }
}

/// Whether a service runs and is healthy.
pub async fn service(client: &Client, id: &str) -> Result<Look<()>, TalosError> {
    let services = client.services().await?;
    Ok(match services.iter().find(|service| service.id == id) {
        None => Look::NotYet(format!("there is no service {id} yet")),
        Some(service) if service.is_running() && service.health == Health::Good => Look::Done(()),
        Some(service) => Look::NotYet(service.describe()),
    })
}

/// Whether the time of the node is in sync. A node that does not report the state of its time counts as in sync.
pub async fn time_sync(client: &Client) -> Result<Look<()>, TalosError> {
    let status = client.get(ResourceKind::TIME_STATUS, "node").await?;
    let synced = status.and_then(|status| status.text("synced"));
    Ok(if synced.as_deref() == Some("false") {
        Look::NotYet("time is not in sync yet".to_owned())
    } else {
        Look::Done(())
    })
}

/// Whether the machine runs and all its conditions are met.
pub async fn machine_ready(client: &Client) -> Result<Look<()>, TalosError> {
    let Some(status) = client.get(ResourceKind::MACHINE_STATUS, "machine").await? else {
        return Ok(Look::NotYet("the machine does not report its stage yet".to_owned()));
    };
    let stage = status.text("stage").unwrap_or_default();
    if stage == "running" && status.text("status.ready").as_deref() == Some("true") {
        return Ok(Look::Done(()));
    }
    let unmet = status.tree().map(|tree| unmet(&tree)).unwrap_or_default();
    let colon = if unmet.is_empty() { "" } else { ": " };
    Ok(Look::NotYet(format!("the machine is {stage}{colon}{}", unmet.join(", "))))
}

/// Unmet conditions of a machine, such as `services: etcd not healthy`.
fn unmet(status: &Node) -> Vec<String> {
    let get = |node: &Node, key: &str| node.as_map().and_then(|map| map.get(key).cloned());
    let text = |node: &Node, key: &str| {
        get(node, key).and_then(|node| node.as_str().map(str::to_owned)).unwrap_or_default()
    };
    let list = get(status, "status").and_then(|status| get(&status, "unmetConditions"));
    let items =
        list.and_then(|list| list.as_seq().map(|seq| seq.items.clone())).unwrap_or_default();
    items.iter().map(|item| format!("{}: {}", text(item, "name"), text(item, "reason"))).collect()
}
