//! Observing Proxmox, the nodes and Kubernetes, all at the same time and with as few requests as
//! possible. An API that does not answer is part of the observed state.

mod addon;
mod answer;
mod device;
mod dry_run;
mod former_address;
mod hidden_vm;
mod image;
mod image_content;
mod image_source;
mod kubernetes;
mod listener;
mod migration;
mod orphan_address;
mod other_system;
mod proxmox;
mod renamed_vm;
mod silent_vm;
mod sources;
mod talos;
mod unknown_node;
mod vip;
mod vm_address;
mod vm_config;

use std::collections::BTreeMap;

use talmox_clock::Clock;
use talmox_plan::desired::Desired;
use talmox_plan::observed::{ImagesSeen, Observed, Pve};
use talmox_pve::id::VmId;
use talmox_pve::{Client, PveError};
use tokio::time::timeout;

pub use sources::{Purpose, Sources, TalosAccess};

/// The first free vmids from `first` on, without those that the inventory sets for nodes.
pub async fn free_numbers(
    desired: &Desired,
    client: &Client,
    first: u32,
    count: usize,
) -> Vec<VmId> {
    proxmox::free_numbers(desired, client, first, count).await
}

/// Observes Proxmox alone.
pub async fn observe_proxmox(desired: &Desired, client: &Client) -> Result<Pve, PveError> {
    proxmox::observe(desired, client).await
}

/// Searches all VMs for markers of this cluster, because `destroy` must also find VMs that were renamed.
pub async fn observe_removed(desired: &Desired, client: &Client, pve: &mut Pve) {
    renamed_vm::search_all(desired, client, pve).await;
}

/// Searches all foreign VMs for addresses of this cluster, in their configs and by their guest agents.
pub async fn observe_addresses(desired: &Desired, client: &Client, pve: &mut Pve) {
    vm_address::search(desired, client, pve).await;
}

/// Lists the images on the hosts of all nodes, for a plan that replaces nodes.
pub async fn observe_image_contents(desired: &Desired, client: &Client, pve: &mut Pve) {
    image_content::list(desired, client, pve).await;
}

/// Observes the image storages of all hosts. The cleanup of unused images depends on them.
pub async fn observe_images(desired: &Desired, client: &Client, pve: &Pve) -> ImagesSeen {
    image::observe(desired, client, pve).await
}

/// Observes everything that a plan for this cluster depends on. An error means that Proxmox did not answer.
pub async fn observe(desired: &Desired, sources: &Sources<'_>) -> Result<Observed, PveError> {
    let Sources { pve: client, talos: access, .. } = *sources;
    // Nodes with known addresses are probed before Proxmox answers.
    let limit = sources.purpose.limit();
    let nodes = talos::NodeProbes::start(desired, access, limit);
    let vip = vip::VipProbe::start(desired, access);
    let mut pve = proxmox::observe(desired, client).await?;
    // Nodes that will be created do not answer at their addresses yet. The image sources are queried while these probes time
    // out.
    let offers = async {
        if sources.purpose == Purpose::Change {
            image_source::look(desired, &pve, sources.web).await
        } else {
            BTreeMap::new()
        }
    };
    let deadline = Clock::real().deadline(limit);
    let read = addon::read(desired, sources.web, limit);
    let ((mut nodes, ports), offers, read) =
        tokio::join!(nodes.finish(desired, &pve, client, access), offers, read);
    silent_vm::refresh_power_states(desired, &mut pve, &nodes, client).await;
    let former =
        talos::probe_former_addresses(desired, &pve, client, access, sources.kube, &mut nodes);
    // Nodes that do not answer in time count as silent.
    let _late = timeout(deadline.left(), Box::pin(former)).await;
    Box::pin(dry_run::observe(desired, access, &mut nodes, deadline.left())).await;
    let silent = other_system::silent_nodes(desired, &mut pve, client, access).await;
    let (kubernetes, addons) = kubernetes::observe(desired, &nodes, sources, read, deadline).await;
    let orphan_addresses = Box::pin(orphan_address::observe(desired, &pve, &nodes, access)).await;
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
        orphan_addresses,
        are_secrets_new: false,
    })
}
