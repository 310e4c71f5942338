//! What there is: Proxmox, the nodes, Kubernetes. Asked at the same time, and for as little as can
//! be. What does not answer is a fact like any other.

mod addon;
mod proxmox;
mod talos;
mod vip;
mod world;

use talmox_pve::id::VmId;
use talmox_pve::{Client, PveError};
use talmox_talos_api::{Credentials, Settings};

use crate::desired::Desired;

pub use addon::addons;
pub use world::{
    Addons, Configured, EtcdSeen, IdSeen, Pve, TalosSeen, Told, VipSeen, VmSeen, World,
};

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
/// answer.
pub async fn observe(
    desired: &Desired,
    client: &Client,
    access: &TalosAccess,
) -> Result<World, PveError> {
    // Nodes at known addresses need not wait for Proxmox.
    let nodes = talos::Looks::start(desired, access);
    let vip = vip::Look::start(desired, access);
    let pve = proxmox::observe(desired, client).await?;
    let nodes = nodes.finish(desired, &pve, client, access).await;
    Ok(World { pve, nodes, vip: vip.finish().await, addons: Addons::new() })
}
