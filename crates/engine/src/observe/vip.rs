//! Whether anybody holds the virtual address.

use std::time::Duration;

use talmox_talos_api::Address;
use tokio::net::TcpStream;
use tokio::task::JoinHandle;
use tokio::time::timeout;

use super::{TalosAccess, VipSeen};
use crate::desired::Desired;

/// Of a socket, hence in real time.
const PATIENCE: Duration = Duration::from_secs(3);

pub(super) struct Look(Option<JoinHandle<VipSeen>>);

impl Look {
    pub(super) fn start(desired: &Desired, access: &TalosAccess) -> Self {
        let address = desired.vip.map(|vip| Address { host: vip.to_string(), port: 6443 });
        let target = address.map(|address| access.settings.reach.target(&address));
        Self(target.map(|target| {
            tokio::spawn(async move {
                let connect = TcpStream::connect((target.host.as_str(), target.port));
                match timeout(PATIENCE, connect).await {
                    Ok(Ok(_)) => VipSeen::Answers,
                    _ => VipSeen::Silent,
                }
            })
        }))
    }

    pub(super) async fn finish(self) -> VipSeen {
        match self.0 {
            Some(look) => look.await.unwrap_or_default(),
            None => VipSeen::NotAsked,
        }
    }
}
