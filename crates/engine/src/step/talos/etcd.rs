//! What a control plane has of etcd.

use talmox_talos_api::{Client, TalosError};

/// Where the database is, once there is one.
const DATABASE: &str = "/var/lib/etcd/member/snap/db";

#[derive(Debug)]
pub(super) enum Etcd {
    /// It runs, as a member.
    Member,
    /// It does not run, and has data.
    Data,
    /// It has never run here.
    Nothing,
}

impl Etcd {
    pub(super) async fn of(client: &Client) -> Result<Self, TalosError> {
        match client.etcd_members().await {
            Ok(members) if !members.is_empty() => return Ok(Self::Member),
            // The node answered: etcd does not run.
            Ok(_) => {}
            Err(error) if error.code().is_some() => {}
            Err(error) => return Err(error),
        }
        Ok(if client.has_file(DATABASE).await? { Self::Data } else { Self::Nothing })
    }
}
