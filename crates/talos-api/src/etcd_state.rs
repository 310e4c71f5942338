//! State of etcd on a control plane. Reading it does not wait for an etcd that is down.

use crate::client::{Client, Event, Member, Payload, Service};
use crate::error::TalosError;
use crate::proto::machine::service_state_event::Action;

/// State of etcd on one control plane.
#[derive(Clone, Debug, PartialEq)]
pub enum EtcdState {
    /// etcd runs, and its member reports these members.
    Member(Vec<Member>),
    /// The service runs, but etcd does not answer, because it is starting or has lost its quorum. In both cases etcd
    /// has data.
    Silent(String),
    /// The service does not run. The message of the service contains the reason.
    Down(Service),
    /// Talos has not loaded the service.
    Absent,
}

impl EtcdState {
    /// Reads the state of the service first. While etcd is down, calls that etcd must answer block until their deadline
    /// and return no reason.
    pub async fn read(client: &Client) -> Result<Self, TalosError> {
        let services = client.services().await?;
        Self::of(client, services.into_iter().find(|service| service.id == ETCD)).await
    }

    /// Reads the state of etcd. `service` is the state of its service.
    pub async fn of(client: &Client, service: Option<Service>) -> Result<Self, TalosError> {
        let Some(service) = service else { return Ok(Self::Absent) };
        if !service.is_running() {
            return Ok(Self::Down(service));
        }
        match client.etcd_members().await {
            Ok(members) if !members.is_empty() => Ok(Self::Member(members)),
            Ok(_) | Err(TalosError::Late { .. }) => {
                Ok(Self::Silent("etcd does not answer yet".to_owned()))
            }
            Err(error) if error.code().is_some() => Ok(Self::Silent(error.reason())),
            Err(error) => Err(error),
        }
    }

    /// Reason why the etcd member does not answer; `None` if it answers.
    pub fn obstacle(&self) -> Option<String> {
        match self {
            Self::Member(_) => None,
            Self::Silent(reason) => Some(reason.clone()),
            Self::Down(service) => Some(service.describe()),
            Self::Absent => Some("Talos has not started etcd yet".to_owned()),
        }
    }
}

/// Bootstrap request that one control plane received since its last boot.
///
/// Talos keeps the request in memory and accepts further requests until etcd has data. A second request stops the etcd
/// that starts because of the first request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BootstrapRequest {
    /// The node reports no bootstrap request.
    None,
    /// The node accepted a request, and its etcd is starting.
    Accepted,
    /// The node accepted a request, but etcd failed before it ran. Talos does not start etcd again.
    Failed,
}

impl BootstrapRequest {
    /// Reads the request from the events of the node. The events are available until the next boot of the node, even if
    /// the client that sent the request has exited.
    pub async fn read(client: &Client) -> Result<Self, TalosError> {
        Ok(Self::of(&client.past_events().await?))
    }

    fn of(events: &[Event]) -> Self {
        let etcd = events.iter().filter_map(|event| match &event.payload {
            Payload::Service(service) if service.service == ETCD => Some(service),
            _ => None,
        });
        etcd.fold(Self::None, |state, event| match (event.action(), state) {
            (Action::Finished, _) if event.message == BOOTSTRAP_REQUESTED => Self::Accepted,
            (Action::Failed, Self::Accepted) => Self::Failed,
            (_, state) => state,
        })
    }
}

/// ID of the etcd service.
pub const ETCD: &str = "etcd";

/// Message of Talos when it stops an etcd that waits to join a cluster, and starts an etcd that forms a cluster.
const BOOTSTRAP_REQUESTED: &str = "Bootstrap requested";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client::Actor;
    use crate::proto::machine::ServiceStateEvent;

    fn event((service, action, message): (&str, Action, &str)) -> Event {
        let payload = Payload::Service(ServiceStateEvent {
            service: service.to_owned(),
            action: action.into(),
            message: message.to_owned(),
            health: None,
        });
        Event { id: String::new(), actor: Actor(String::new()), payload }
    }

    /// The events are in the order in which Talos 1.12.0 reported them.
    #[test]
    fn a_bootstrap_request_is_read_from_the_events() {
        let waiting = [
            ("etcd", Action::Preparing, "Running pre state"),
            ("etcd", Action::Failed, "Failed to run pre stage: context canceled"),
        ];
        let accepted = [
            ("etcd", Action::Finished, BOOTSTRAP_REQUESTED),
            ("etcd", Action::Starting, "Starting service"),
            ("etcd", Action::Preparing, "Running pre state"),
            ("kubelet", Action::Failed, "Failed to run pre stage: failed to pull image"),
        ];
        let failed = [("etcd", Action::Failed, "Failed to run pre stage: failed to pull image")];
        let of = |parts: &[&[(&str, Action, &str)]]| {
            BootstrapRequest::of(&parts.concat().into_iter().map(event).collect::<Vec<_>>())
        };
        assert_eq!(of(&[]), BootstrapRequest::None);
        assert_eq!(of(&[&waiting]), BootstrapRequest::None);
        assert_eq!(of(&[&waiting, &accepted]), BootstrapRequest::Accepted);
        assert_eq!(of(&[&waiting, &accepted, &failed]), BootstrapRequest::Failed);
        assert_eq!(of(&[&waiting, &accepted, &failed, &accepted]), BootstrapRequest::Accepted);
    }
}
