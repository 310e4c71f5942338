//! Whether a control plane has etcd data.

use talmox_talos_api::{Client, EtcdState, TalosError};

/// Path of the database of etcd.
const DATABASE: &str = "/var/lib/etcd/member/snap/db";

/// State of etcd on a control plane.
#[derive(Debug)]
pub(super) enum EtcdData {
    /// etcd runs, as a member.
    Member,
    /// The service runs but does not answer: etcd is starting, joining, or without a quorum. It counts as having data.
    Starting(String),
    /// etcd has data, but its service does not run.
    AtRest,
    /// etcd has never run on this node. The text is the state of its service.
    Nothing(String),
}

impl EtcdData {
    pub(super) async fn read(client: &Client) -> Result<Self, TalosError> {
        let state = EtcdState::read(client).await?;
        let obstacle = match (&state, state.obstacle()) {
            (EtcdState::Member(_), _) | (_, None) => return Ok(Self::Member),
            (EtcdState::Silent(_), Some(reason)) => return Ok(Self::Starting(reason)),
            (EtcdState::Down(_) | EtcdState::Absent, Some(reason)) => reason,
        };
        Ok(if client.has_file(DATABASE).await? { Self::AtRest } else { Self::Nothing(obstacle) })
    }
}
