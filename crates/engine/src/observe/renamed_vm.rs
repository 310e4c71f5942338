//! Search for owned VMs whose names and tags were changed in Proxmox. Their nodes seem to have no VM, or are no longer in the
//! inventory. Only the markers show that these VMs are owned VMs.

use std::collections::BTreeSet;

use talmox_plan::desired::{Desired, TAG};
use talmox_plan::observed::{Pve, Unread};
use talmox_plan::ownership::{Marker, UnmarkedSign};
use talmox_plan::planning::locations;
use talmox_pve::Client;
use talmox_pve::api::cluster::Guest;
use talmox_pve::api::task::{TaskEntry, TaskState};
use talmox_pve::config::VmConfig;
use talmox_pve::id::PoolId;

use super::vm_config;

/// Searches the pools of this cluster. VMs with the tag of another cluster are skipped.
pub(super) async fn search_pools(desired: &Desired, client: &Client, pve: &mut Pve) {
    let is_own = |pool: &PoolId| is_own_pool(desired, pool);
    let may_be = |guest: &Guest| guest.pool.as_ref().is_some_and(is_own) && !is_of_others(guest);
    search(desired, client, pve, may_be).await;
}

/// Whether the inventory sets this Proxmox pool for at least one node.
fn is_own_pool(desired: &Desired, pool: &PoolId) -> bool {
    desired.nodes.iter().any(|node| node.pool.as_ref() == Some(pool))
}

/// Searches every VM without the tag of another cluster, if a tag policy keeps talmox from setting tags. VMs of nodes that
/// are no longer in the inventory may then have no tags.
pub(super) async fn search_untagged(desired: &Desired, client: &Client, pve: &mut Pve) {
    let is_untagged = pve.vms.values().filter_map(|seen| seen.config.as_ref().ok()).any(|config| {
        let marker = Marker::find(config.description());
        marker.is_some_and(|marker| marker.cluster == desired.mark && marker.are_tags_rejected)
    });
    if is_untagged {
        search(desired, client, pve, |guest| !is_of_others(guest)).await;
    }
}

/// Searches all VMs if a node has no VM, so that no second VM is created for a node whose VM was renamed.
pub(super) async fn search_missing(desired: &Desired, client: &Client, pve: &mut Pve) {
    if locations(desired, pve).iter().any(|(_, vm)| vm.is_none()) {
        // VMs with tags of another cluster are searched too. With copied secrets, or after `cluster_name` was edited, such a
        // VM has the marker of this cluster.
        search(desired, client, pve, |_| true).await;
    }
}

/// Whether a VM has tags of another cluster. VMs with tags of this cluster are not checked here, because they were read
/// before.
fn is_of_others(guest: &Guest) -> bool {
    let is_tagged = guest.tags.iter().any(|tag| tag.eq_ignore_ascii_case(TAG));
    is_tagged && guest.tags.len() > 1
}

/// Searches all VMs.
pub(super) async fn search_all(desired: &Desired, client: &Client, pve: &mut Pve) {
    search(desired, client, pve, |_| true).await;
}

/// Reads the VMs that `may_be` selects and that were not read yet. Adds VMs with a marker, a UUID or another sign of the
/// cluster to `pve.vms`, and VMs that cannot be read to `pve.unread`.
async fn search(
    desired: &Desired,
    client: &Client,
    pve: &mut Pve,
    may_be: impl Fn(&Guest) -> bool,
) {
    let is_open = |guest: &&Guest| {
        guest.is_vm && !guest.template && !pve.vms.contains_key(&guest.vmid) && may_be(guest)
    };
    let guests = pve.resources.guests.iter().filter(is_open).cloned();
    // No request is sent to a host that is down, because each one would take its whole timeout.
    let is_up = |guest: &Guest| pve.host(&guest.node).is_none_or(|host| host.status == "online");
    let (guests, lost): (Vec<Guest>, Vec<Guest>) = guests.partition(is_up);
    let uuids: BTreeSet<String> =
        desired.nodes.iter().map(|node| node.identity.uuid.to_string()).collect();
    let has_sign = |guest: &Guest, config: &VmConfig| {
        let marker = Marker::find(config.description());
        let is_in_pool = guest.pool.as_ref().is_some_and(|pool| is_own_pool(desired, pool));
        marker.is_some_and(|marker| marker.cluster == desired.mark)
            || config.smbios().uuid.is_some_and(|uuid| uuids.contains(&uuid))
            || UnmarkedSign::find(config, &desired.cluster, is_in_pool).is_some()
    };
    let mut signed = vec![];
    for (guest, config) in vm_config::configs(client, guests).await {
        match config {
            Ok(config) if has_sign(&guest, &config) => {
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
        let reason = vm_config::host_down();
        pve.unread.insert(guest.vmid, Unread { host: guest.node, reason });
    }
}

/// Whether the last task of this login shows that a VM exists that the login cannot see. If so, the rights of the login were
/// reduced. `tasks` are the tasks of the vmid, the newest first.
pub(super) fn is_left_by(login: &str, tasks: &[TaskEntry]) -> bool {
    let Some(last) = tasks.iter().find(|task| task.upid.user() == login) else { return false };
    let is_done = matches!(last.state, TaskState::Done { .. });
    match last.upid.kind() {
        "qmdestroy" => matches!(last.state, TaskState::Failed { .. }),
        "qmcreate" | "qmclone" => is_done,
        // Every other task needs an existing VM.
        _ => true,
    }
}
