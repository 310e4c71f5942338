//! VMs that people gave other names and tags, of nodes that the inventory has no longer or seems to miss: only their
//! markers tell that they are ours.

use std::collections::BTreeSet;

use talmox_plan::desired::{Desired, TAG};
use talmox_plan::observed::{Pve, Unread};
use talmox_plan::ownership::Marker;
use talmox_plan::planning::locations;
use talmox_pve::Client;
use talmox_pve::api::cluster::Guest;
use talmox_pve::api::task::{TaskEntry, TaskState};
use talmox_pve::config::VmConfig;
use talmox_pve::id::PoolId;

use super::vm_config;

/// Looks at the VMs in pools of ours that nothing tells to be of another cluster.
pub(super) async fn look_in_pools(desired: &Desired, client: &Client, pve: &mut Pve) {
    let is_ours = |pool: &PoolId| desired.nodes.iter().any(|node| node.pool.as_ref() == Some(pool));
    let may_be = |guest: &Guest| guest.pool.as_ref().is_some_and(is_ours) && !is_of_others(guest);
    look(desired, client, pve, may_be).await;
}

/// Where a tag policy keeps talmox from setting tags, VMs of nodes that the inventory has no longer may have none: looks at
/// every VM that is not tagged as another cluster's.
pub(super) async fn look_without_tags(desired: &Desired, client: &Client, pve: &mut Pve) {
    let is_untagged = pve.vms.values().filter_map(|seen| seen.config.as_ref().ok()).any(|config| {
        let marker = Marker::find(config.description());
        marker.is_some_and(|marker| marker.cluster == desired.mark && marker.are_tags_rejected)
    });
    if is_untagged {
        look(desired, client, pve, |guest| !is_of_others(guest)).await;
    }
}

/// Where a node has no VM, looks for one under any name before a second one is made. Who has all of them asks nothing.
pub(super) async fn look_for_missing(desired: &Desired, client: &Client, pve: &mut Pve) {
    if locations(desired, pve).iter().any(|(_, vm)| vm.is_none()) {
        // Tags of another cluster prove nothing: with copied secrets, or after `cluster_name` was edited, such a VM has this
        // cluster's marker. So one that cannot be read counts like any other.
        look(desired, client, pve, |_| true).await;
    }
}

/// Whether its tags tell that a VM is of another cluster; the tags of ours were looked for before.
fn is_of_others(guest: &Guest) -> bool {
    let is_tagged = guest.tags.iter().any(|tag| tag.eq_ignore_ascii_case(TAG));
    is_tagged && guest.tags.len() > 1
}

/// Looks at every VM.
pub(super) async fn look_everywhere(desired: &Desired, client: &Client, pve: &mut Pve) {
    look(desired, client, pve, |_| true).await;
}

/// Of the VMs that nobody looked at yet, adds those that carry a marker of the cluster or the UUID of a node, and tells
/// which could not be looked at.
async fn look(desired: &Desired, client: &Client, pve: &mut Pve, may_be: impl Fn(&Guest) -> bool) {
    let is_open = |guest: &&Guest| {
        guest.is_vm && !guest.template && !pve.vms.contains_key(&guest.vmid) && may_be(guest)
    };
    let guests = pve.resources.guests.iter().filter(is_open).cloned();
    // A host that is down answers nothing, and takes its time for each of its VMs.
    let is_up = |guest: &Guest| pve.host(&guest.node).is_none_or(|host| host.status == "online");
    let (guests, lost): (Vec<Guest>, Vec<Guest>) = guests.partition(is_up);
    let uuids: BTreeSet<String> =
        desired.nodes.iter().map(|node| node.identity.uuid.to_string()).collect();
    let has_sign = |config: &VmConfig| {
        let marker = Marker::find(config.description());
        marker.is_some_and(|marker| marker.cluster == desired.mark)
            || config.smbios().uuid.is_some_and(|uuid| uuids.contains(&uuid))
    };
    let mut signed = vec![];
    for (guest, config) in vm_config::configs(client, guests).await {
        match config {
            Ok(config) if has_sign(&config) => {
                pve.unread.remove(&guest.vmid);
                signed.push(guest);
            }
            Ok(_) => {
                pve.unread.remove(&guest.vmid);
            }
            Err(reason) => {
                pve.unread.insert(guest.vmid, Unread { host: guest.node, reason });
            }
        }
    }
    pve.vms.extend(vm_config::vms(client, signed).await);
    for guest in lost {
        let reason = vm_config::DOWN.to_owned();
        pve.unread.insert(guest.vmid, Unread { host: guest.node, reason });
    }
}

/// Whether a VM that may not be seen is one that this login worked on last, by the tasks of its number, the newest first:
/// then somebody took it out of our sight.
pub(super) fn is_left_by(login: &str, tasks: &[TaskEntry]) -> bool {
    let Some(last) = tasks.iter().find(|task| task.upid.user() == login) else { return false };
    let is_done = matches!(last.state, TaskState::Done { .. });
    match last.upid.kind() {
        "qmdestroy" => matches!(last.state, TaskState::Failed { .. }),
        "qmcreate" | "qmclone" => is_done,
        // Whatever was done to it, it was there.
        _ => true,
    }
}
