//! Observation of the server that answers at the virtual address (VIP).

use talmox_plan::desired::Desired;
use talmox_plan::observed::VipSeen;
use talmox_talos_api::Address;
use tokio::task::JoinHandle;

use super::listener::{connect, identify};
use super::sources::{KUBERNETES, TalosAccess};

/// Running probe of the virtual address.
pub(super) struct VipProbe(Option<JoinHandle<VipSeen>>);

impl VipProbe {
    pub(super) fn start(desired: &Desired, access: &TalosAccess) -> Self {
        let address = desired.vip.map(|vip| Address { host: vip.to_string(), port: KUBERNETES });
        let reach = access.settings.reach.clone();
        let authority = desired.kubernetes_authority.clone();
        Self(address.map(|address| {
            tokio::spawn(async move {
                match connect(&address, &reach).await {
                    Some(socket) => {
                        VipSeen::Answers(identify(socket, &address, authority.as_deref()).await)
                    }
                    None => VipSeen::Silent,
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
