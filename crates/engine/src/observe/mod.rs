//! Observing Proxmox, the nodes and Kubernetes, all at the same time and with as few requests as
//! possible. An API that does not answer is part of the observed state.

mod addon;
mod device;
mod image;
mod image_source;
mod kubernetes;
mod listener;
mod other_system;
mod proxmox;
mod removed;
mod silent;
mod sources;
mod talos;
mod vip;
mod vm_config;

use std::collections::BTreeMap;

use talmox_clock::Clock;
use talmox_plan::desired::Desired;
use talmox_plan::observed::{ImagesSeen, Observed, Pve};
use talmox_pve::id::VmId;
use talmox_pve::{Client, PveError};
use tokio::time::timeout;

pub use sources::{Purpose, Sources, TalosAccess};

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

/// Looks at every VM there is for those that are of this cluster, whatever people did to all but their markers: what
/// ending the cluster depends on.
pub async fn observe_removed(desired: &Desired, client: &Client, pve: &mut Pve) {
    removed::look_everywhere(desired, client, pve).await;
}

/// Looks at what lies on the storages for images, of all hosts: what cleaning up depends on.
pub async fn observe_images(desired: &Desired, client: &Client, pve: &Pve) -> ImagesSeen {
    image::observe(desired, client, pve).await
}

/// Looks at all that a plan for this cluster depends on. An error means that Proxmox itself did not
/// answer.
pub async fn observe(desired: &Desired, sources: &Sources<'_>) -> Result<Observed, PveError> {
    let Sources { pve: client, talos: access, .. } = *sources;
    // Nodes at known addresses need not wait for Proxmox.
    let limit = sources.purpose.limit();
    let nodes = talos::Looks::start(desired, access, limit);
    let vip = vip::VipLook::start(desired, access);
    let mut pve = proxmox::observe(desired, client).await?;
    // Where something is to be made, addresses are silent, and waiting for them leaves time to ask.
    let offers = async {
        if sources.purpose == Purpose::Change {
            image_source::look(desired, &pve, sources.web).await
        } else {
            BTreeMap::new()
        }
    };
    let end = Clock::real().deadline(limit);
    let read = addon::read(desired, sources.web, limit);
    let ((mut nodes, ports), offers, read) =
        tokio::join!(nodes.finish(desired, &pve, client, access), offers, read);
    silent::look_again(desired, &mut pve, &nodes, client).await;
    let elsewhere = talos::look_elsewhere(desired, &pve, client, access, &mut nodes);
    // Without its answer they stay silent.
    let _late = timeout(end.left(), Box::pin(elsewhere)).await;
    let silent = other_system::look_at_all(desired, &mut pve, client, access).await;
    let (kubernetes, addons) = kubernetes::observe(desired, &nodes, sources, read, end).await;
    let (vip, images) = (vip.finish().await, ImagesSeen::default());
    let sources = offers;
    Ok(Observed {
        pve,
        nodes,
        ports,
        silent,
        vip,
        kubernetes,
        addons,
        sources,
        images,
        are_secrets_new: false,
    })
}
