//! Whether etcd runs on a control plane, found out without waiting for an etcd that is down.

use crate::client::{Client, Event, Member, Payload, Service};
use crate::error::TalosError;
use crate::proto::machine::service_state_event::Action;

/// The state of etcd on one control plane.
#[derive(Clone, Debug, PartialEq)]
pub enum EtcdState {
    /// It runs, and its member knows these.
    Member(Vec<Member>),
    /// Its service runs, and etcd does not answer: it is starting, or has lost its quorum. Either way it has data.
    Silent(String),
    /// Its service does not run, and says why.
    Down(Service),
    /// Talos has not loaded the service.
    Absent,
}

impl EtcdState {
    /// Reads the state of the service first. Calls that etcd must answer hang while it is down, so they say nothing about
    /// an etcd that does not run, and cost their whole deadline.
    pub async fn read(client: &Client) -> Result<Self, TalosError> {
        let services = client.services().await?;
        Self::of(client, services.into_iter().find(|service| service.id == ETCD)).await
    }

    /// The same, where the services are known.
    pub async fn of(client: &Client, service: Option<Service>) -> Result<Self, TalosError> {
        let Some(service) = service else { return Ok(Self::Absent) };
        if !service.is_running() {
            return Ok(Self::Down(service));
        }
        match client.etcd_members().await {
            Ok(members) if !members.is_empty() => Ok(Self::Member(members)),
            Ok(_) | Err(TalosError::Late { .. }) => Ok(Self::Silent("etcd is starting".to_owned())),
            Err(error) if error.code().is_some() => Ok(Self::Silent(error.reason())),
            Err(error) => Err(error),
        }
    }

    /// Why there is no member to ask; nothing if there is one.
    pub fn obstacle(&self) -> Option<String> {
        match self {
            Self::Member(_) => None,
            Self::Silent(reason) => Some(reason.clone()),
            Self::Down(service) => Some(service.describe()),
            Self::Absent => Some("Talos has not started etcd yet".to_owned()),
        }
    }
}

/// A bootstrap of etcd on one control plane, in this boot of the node.
///
/// Talos keeps the request in memory and accepts another one until etcd has data. The second one stops the etcd that the
/// first one is starting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BootstrapRequest {
    /// The node reports none.
    None,
    /// The node accepted one, and its etcd is starting.
    Accepted,
    /// The node accepted one, and its etcd failed before it ran. Talos does not start it again.
    Failed,
}

impl BootstrapRequest {
    /// Reads the events of the node: they outlive the client that sent the request, and end with the boot.
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

/// The id of the service.
pub const ETCD: &str = "etcd";

/// What Talos reports as it stops the etcd that waits to join a cluster, to start one that forms a cluster.
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

    /// In the order in which 1.12.0 reported them.
    #[test]
    fn a_bootstrap_is_known_from_the_events_of_the_node() {
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
