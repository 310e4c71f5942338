//! Observing the image storages, and the other VMs and tasks that may need the images there.

use std::collections::{BTreeMap, BTreeSet};

use talmox_plan::desired::Desired;
use talmox_plan::observed::{ImagesSeen, Pve};
use talmox_plan::ownership::Marker;
use talmox_plan::planning::{Placed, VmPresence, places};
use talmox_pve::Client;
use talmox_pve::api::cluster::Guest;
use talmox_pve::api::qemu::{self, Vm};
use talmox_pve::api::storage::{self, Content};
use talmox_pve::api::task::{self, Filter, TaskState};
use talmox_pve::config::VmConfig;
use talmox_pve::id::{NodeName, VmId, VolumeId};
use tokio::task::JoinSet;

use super::answer::answer;

/// Kinds of tasks that read images.
const READERS: [&str; 4] = ["qmcreate", "qmclone", "imgcopy", "download"];

/// Number of tasks of a host that are listed. Proxmox lists running ones first.
const TASKS: u32 = 200;

/// Observes all hosts that may have images of this cluster.
pub(super) async fn observe(desired: &Desired, client: &Client, pve: &Pve) -> ImagesSeen {
    let hosts = hosts(desired, pve);
    let mut seen = ImagesSeen::default();
    for host in &hosts {
        let list = storage::content(host, &desired.image_storage, Some(Content::Import), None);
        let contents = answer(client.send(&list).await);
        let place = (host.clone(), desired.image_storage.clone());
        seen.contents.insert(place, contents);
    }
    seen.busy = busy(desired, client, pve).await;
    let configs = configs_of_others(desired, client, pve).await;
    seen.used = used(&configs, &seen);
    seen.others = others(desired, pve, &configs);
    seen
}

/// The VMs of this cluster. Once they are deleted, their images are not needed any more.
fn own(desired: &Desired, pve: &Pve) -> BTreeSet<VmId> {
    let places = places(desired, pve);
    let is_own = |placed: &&Placed<'_>| matches!(placed.state, VmPresence::Owned(_));
    let nodes = places.nodes.iter().filter(is_own).map(|placed| placed.own.vm.vmid);
    nodes.chain(places.removed.iter().map(|(own, _)| own.vm.vmid)).collect()
}

/// The online hosts that have the image storage. If the storage is shared, only the first of them.
fn hosts(desired: &Desired, pve: &Pve) -> Vec<NodeName> {
    let storages = pve.resources.storages.iter();
    let own = storages.filter(|seen| seen.storage == desired.image_storage);
    let working: Vec<_> = own.filter(|seen| pve.is_online(&seen.node)).collect();
    match working.iter().find(|seen| seen.shared) {
        Some(shared) => vec![shared.node.clone()],
        None => working.into_iter().map(|seen| seen.node.clone()).collect(),
    }
}

/// Hosts on which a VM is being created or an image is being downloaded, with a description of the VM or task. A task does
/// not show which image it reads, so it may read any image on that host.
async fn busy(desired: &Desired, client: &Client, pve: &Pve) -> BTreeMap<NodeName, String> {
    let mut busy = BTreeMap::new();
    let own = own(desired, pve);
    for guest in pve.resources.guests.iter().filter(|guest| !own.contains(&guest.vmid)) {
        if matches!(guest.lock.as_deref(), Some("create" | "clone")) {
            let what = format!("VM {} is being created there", guest.vmid);
            busy.insert(guest.node.clone(), what);
        }
    }
    let online = pve.resources.hosts.iter().filter(|host| pve.is_online(&host.node));
    for host in online {
        let filter = Filter { limit: Some(TASKS), ..Filter::default() };
        let tasks = client.send(&task::list(&host.node, &filter)).await.unwrap_or_default();
        let reads = |task: &&task::TaskEntry| {
            task.state == TaskState::Running && READERS.contains(&task.upid.kind())
        };
        if let Some(task) = tasks.iter().find(reads) {
            let what = format!("a task of {} runs there ({})", task.upid.user(), task.upid.kind());
            busy.entry(host.node.clone()).or_insert(what);
        }
    }
    busy
}

/// The configs of all VMs that do not belong to this cluster, as far as the token can read them.
async fn configs_of_others(
    desired: &Desired,
    client: &Client,
    pve: &Pve,
) -> BTreeMap<VmId, VmConfig> {
    let mut looks = JoinSet::new();
    let is_foreign = |guest: &&Guest| guest.is_vm && !pve.vms.contains_key(&guest.vmid);
    for guest in pve.resources.guests.iter().filter(is_foreign) {
        let (client, vm) = (client.clone(), Vm::new(&guest.node, guest.vmid));
        looks.spawn(async move { (vm.vmid, client.send(&qemu::config(&vm)).await) });
    }
    let foreign = looks.join_all().await.into_iter();
    let mut configs: BTreeMap<VmId, VmConfig> =
        foreign.filter_map(|(vmid, config)| Some((vmid, config.ok()?))).collect();
    let known = pve.vms.iter().filter_map(|(vmid, seen)| Some((*vmid, seen.config.clone().ok()?)));
    configs.extend(known);
    for vmid in own(desired, pve) {
        configs.remove(&vmid);
    }
    configs
}

/// Hosts with a VM of another cluster. That cluster may need the same image for another node.
fn others(
    desired: &Desired,
    pve: &Pve,
    configs: &BTreeMap<VmId, VmConfig>,
) -> BTreeMap<NodeName, VmId> {
    let is_other = |vmid: &VmId| {
        let marker = configs.get(vmid).and_then(|config| Marker::find(config.description()));
        marker.is_some_and(|marker| marker.cluster != desired.mark)
    };
    let guests = pve.resources.guests.iter().filter(|guest| !guest.template);
    let mut others = BTreeMap::new();
    for guest in guests.filter(|guest| is_other(&guest.vmid)) {
        others.entry(guest.node.clone()).or_insert(guest.vmid);
    }
    others
}

/// The image files to which the config of a VM refers, with the vmid. A disk that was created from an image is a copy, so its
/// config does not refer to the image.
fn used(configs: &BTreeMap<VmId, VmConfig>, seen: &ImagesSeen) -> BTreeMap<VolumeId, VmId> {
    let mut used = BTreeMap::new();
    for volume in seen.contents.values().flatten().flatten() {
        let name = volume.volid.to_string();
        let names = |config: &VmConfig| config.iter().any(|(_, value)| value.contains(&name));
        if let Some((vmid, _)) = configs.iter().find(|(_, config)| names(config)) {
            used.insert(volume.volid.clone(), *vmid);
        }
    }
    used
}
