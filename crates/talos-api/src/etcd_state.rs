//! Whether etcd runs on a control plane, found out without waiting for an etcd that is down.

use crate::client::{Client, Member, Service};
use crate::error::TalosError;

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

/// The id of the service.
pub const ETCD: &str = "etcd";
