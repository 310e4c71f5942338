//! What there is: Proxmox, the nodes, Kubernetes. Asked at the same time, and for as little as can
//! be. What does not answer is a fact like any other.

mod addon;
mod device;
mod listener;
mod proxmox;
pub(crate) mod source;
mod talos;
mod vip;
mod world;

use std::collections::BTreeMap;

use talmox_pve::id::VmId;
use talmox_pve::{Client, PveError};
use talmox_talos_api::{Credentials, Settings};

use crate::desired::Desired;
use crate::web::Web;

pub use addon::addons;
pub use world::{
    Addons, Configured, EtcdSeen, IdSeen, PassedOn, PortSeen, Pve, SourceSeen, TalosSeen, Told,
    VmSeen, World,
};

/// The port of the Kubernetes API.
const KUBERNETES: u16 = 6443;

/// How the nodes are spoken to.
#[derive(Clone, Debug)]
pub struct TalosAccess {
    pub credentials: Credentials,
    pub settings: Settings,
}

/// The first numbers for VMs from `first` on that are free, and that no node is meant to have.
pub async fn free_numbers(
    desired: &Desired,
    client: &Client,
    first: u32,
    count: usize,
) -> Vec<VmId> {
    proxmox::free_numbers(desired, client, first, count).await
}

/// Looks at Proxmox alone.
pub async fn observe_proxmox(desired: &Desired, client: &Client) -> Result<Pve, PveError> {
    proxmox::observe(desired, client).await
}

/// Looks at all that a plan for this cluster depends on. An error means that Proxmox itself did not
/// answer. Without `web` nobody is asked about images.
pub async fn observe(
    desired: &Desired,
    client: &Client,
    access: &TalosAccess,
    web: Option<&Web>,
) -> Result<World, PveError> {
    // Nodes at known addresses need not wait for Proxmox.
    let nodes = talos::Looks::start(desired, access);
    let vip = vip::Look::start(desired, access);
    let pve = proxmox::observe(desired, client).await?;
    // Where something is to be made, addresses are silent, and waiting for them leaves time to ask.
    let sources = async {
        match web {
            Some(web) => source::look(desired, &pve, web).await,
            None => BTreeMap::new(),
        }
    };
    let ((nodes, ports), vip, sources) =
        tokio::join!(nodes.finish(desired, &pve, client, access), vip.finish(), sources);
    Ok(World { pve, nodes, ports, vip, addons: Addons::new(), sources })
}
