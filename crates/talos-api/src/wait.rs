//! Waiting for a node, with a reason that can be shown all the time.

use std::time::Duration;

use talmox_clock::{Clock, Deadline};
use talmox_yaml::Node;

use crate::client::{Client, Health, ResourceKind};
use crate::error::TalosError;

/// What one look at a node brought.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Look<T> {
    Done(T),
    /// Which service or which condition is missing.
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

/// Why a wait ended without what was waited for.
#[derive(Clone, Debug, thiserror::Error)]
pub enum WaitError {
    #[error("the time is up, and still: {reason}")]
    Late { reason: String },
    /// Waiting longer would not help.
    #[error(transparent)]
    Refused(#[from] TalosError),
}

/// How long to wait, and how often to look.
#[derive(Clone, Copy, Debug)]
pub struct Wait {
    pub clock: Clock,
    pub deadline: Deadline,
    pub pause: Duration,
}

impl Wait {
    /// Looks again and again until it is done. What may pass by itself is waited out; whenever the
    /// reason changes, `tell` hears it.
    pub async fn until<T>(
        &self,
        mut look: impl AsyncFnMut() -> Result<Look<T>, TalosError>,
        mut tell: impl FnMut(&str),
    ) -> Result<T, WaitError> {
        let mut told = String::new();
        loop {
            let reason = match look().await {
                Ok(Look::Done(found)) => return Ok(found),
                Ok(Look::NotYet(reason)) => reason,
                Err(error) if error.may_pass() => error.reason(),
                Err(error) => return Err(WaitError::Refused(error)),
            };
            if reason != told {
                tell(&reason);
                told.clone_from(&reason);
            }
            if self.deadline.has_passed() {
                return Err(WaitError::Late { reason });
            }
            self.clock.sleep(self.pause.min(self.deadline.left())).await;
        }
    }
}

/// Whether a service runs and is well.
pub async fn service(client: &Client, id: &str) -> Result<Look<()>, TalosError> {
    let services = client.services().await?;
    Ok(match services.iter().find(|service| service.id == id) {
        None => Look::NotYet(format!("there is no service {id} yet")),
        Some(service) if service.is_running() && service.health == Health::Good => Look::Done(()),
        Some(service) => Look::NotYet(service.describe()),
    })
}

/// Whether the machine runs and all its conditions are met.
pub async fn machine_ready(client: &Client) -> Result<Look<()>, TalosError> {
    let Some(status) = client.get(ResourceKind::MACHINE_STATUS, "machine").await? else {
        return Ok(Look::NotYet("the machine says nothing of its stage yet".to_owned()));
    };
    let stage = status.text("stage").unwrap_or_default();
    if stage == "running" && status.text("status.ready").as_deref() == Some("true") {
        return Ok(Look::Done(()));
    }
    let unmet = status.tree().map(|tree| unmet(&tree)).unwrap_or_default();
    let colon = if unmet.is_empty() { "" } else { ": " };
    Ok(Look::NotYet(format!("the machine is {stage}{colon}{}", unmet.join(", "))))
}

/// `services: etcd not healthy`, for each condition that is not met.
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
