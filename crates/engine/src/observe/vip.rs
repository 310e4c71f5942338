//! Who answers at the virtual address.

use talmox_talos_api::Address;
use tokio::task::JoinHandle;

use super::listener::{knock, who};
use super::{KUBERNETES, PortSeen, TalosAccess};
use crate::desired::Desired;

pub(super) struct Look(Option<JoinHandle<Option<PortSeen>>>);

impl Look {
    pub(super) fn start(desired: &Desired, access: &TalosAccess) -> Self {
        let address = desired.vip.map(|vip| Address { host: vip.to_string(), port: KUBERNETES });
        let reach = access.settings.reach.clone();
        let authority = desired.kubernetes_authority.clone();
        Self(address.map(|address| {
            tokio::spawn(async move {
                let socket = knock(&address, &reach).await?;
                Some(who(socket, &address, authority.as_deref()).await)
            })
        }))
    }

    pub(super) async fn finish(self) -> Option<PortSeen> {
        self.0?.await.unwrap_or_default()
    }
}
