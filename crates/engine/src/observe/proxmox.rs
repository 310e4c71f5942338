//! Observing Proxmox: version, rights, the list of all resources, and the config of each VM that may be an owned VM. Further details
//! are requested only for VMs that will be created.

use std::collections::{BTreeMap, BTreeSet};

use talmox_plan::desired::{Desired, TAG};
use talmox_plan::observed::{IdSeen, Pve, Unread, VmSeen};
use talmox_plan::ownership::Stage;
use talmox_plan::planning::{Placed, VmPresence, is_upload_of, missing_templates, places};
use talmox_pve::api::cluster::{self, Guest, StorageResource};
use talmox_pve::api::qemu::Vm;
use talmox_pve::api::storage::{self, Content, StorageStatus, Volume};
use talmox_pve::api::task::{self, Filter, TaskEntry, TaskState};
use talmox_pve::api::{access, node};
use talmox_pve::config::VmConfig;
use talmox_pve::id::{NodeName, Upid, VmId, VolumeId};
use talmox_pve::{Client, PveError, Request};
use tokio::task::JoinSet;

use super::answer::answer;
use super::vm_config::{host_down, is_free, is_running, see, vms};
use super::{device, hidden_vm, migration, renamed_vm};

/// Maximum number of rounds in which free vmids are searched. Each round asks about all vmids that are needed, so more than a
/// few rounds mean that other clients take vmids at the same time.
const ROUNDS: usize = 100;

pub(super) async fn observe(desired: &Desired, client: &Client) -> Result<Pve, PveError> {
    let (version, permissions, resources) = (
        spawn(client, cluster::version()),
        spawn(client, access::permissions()),
        spawn(client, cluster::resources()),
    );
    let mut pve = Pve {
        version: Some(joined(version.await)?),
        permissions: joined(permissions.await)?,
        resources: joined(resources.await)?,
        ..Pve::default()
    };
    client.set_shared(
        pve.resources.storages.iter().filter(|one| one.shared).map(|one| one.storage.clone()),
    );
    let templates = templates(desired, &pve);
    let candidates: Vec<Guest> = pve
        .resources
        .guests
        .iter()
        .filter(|guest| may_be_owned(desired, guest) || templates.contains(&guest.vmid))
        .cloned()
        .collect();
    pve.vms = vms(client, candidates).await;
    name_hosts_that_are_down(&mut pve);
    renamed_vm::search_pools(desired, client, &mut pve).await;
    renamed_vm::search_untagged(desired, client, &mut pve).await;
    renamed_vm::search_missing(desired, client, &mut pve).await;
    hidden_vm::search(desired, client, &mut pve).await;
    numbers(desired, client, &mut pve).await?;
    details(desired, client, &mut pve).await;
    device::look(desired, client, &mut pve).await;
    migration::look(desired, client, &mut pve).await;
    Ok(pve)
}

fn spawn<T: Send + 'static>(
    client: &Client,
    request: Request<T>,
) -> tokio::task::JoinHandle<Result<T, PveError>> {
    let client = client.clone();
    tokio::spawn(async move { client.send(&request).await })
}

/// Returns the result of a spawned request. A panic in the request is a bug, and is resumed here.
fn joined<T>(result: Result<T, tokio::task::JoinError>) -> T {
    result.unwrap_or_else(|error| std::panic::resume_unwind(error.into_panic()))
}

/// Whether a VM may be an owned VM, by its vmid, name or tags, or because it is too new to have a name. Only the config of
/// the VM shows whether talmox owns it.
fn may_be_owned(desired: &Desired, guest: &Guest) -> bool {
    let has_tag = |tag: &str| guest.tags.iter().any(|known| known.eq_ignore_ascii_case(tag));
    let is_named = |name: &str| desired.nodes.iter().any(|node| node.name == name);
    // The list shows a VM that was created some seconds ago without its name, or with a default name of Proxmox.
    let (first, last) = desired.vmid_range;
    let is_unnamed = match &guest.name {
        Some(name) => *name == format!("VM {}", guest.vmid),
        None => true,
    };
    let is_new = is_unnamed && (first..=last).contains(&guest.vmid.get());
    guest.is_vm
        && !guest.template
        && (desired.nodes.iter().any(|node| node.vmid == Some(guest.vmid))
            || guest.name.as_deref().is_some_and(is_named)
            || is_new
            || (has_tag(TAG) && has_tag(&desired.cluster)))
}

fn templates(desired: &Desired, pve: &Pve) -> BTreeSet<VmId> {
    let expected: BTreeSet<&str> =
        desired.nodes.iter().filter_map(|node| node.template.as_deref()).collect();
    let is_wanted = |guest: &&Guest| {
        guest.template
            && (guest.name.as_deref().is_some_and(|name| expected.contains(name))
                || expected.contains(guest.vmid.to_string().as_str()))
    };
    pve.resources.guests.iter().filter(is_wanted).map(|guest| guest.vmid).collect()
}

/// For VMs that cannot be read because their host is down, sets that as the reason.
fn name_hosts_that_are_down(pve: &mut Pve) {
    let down: BTreeSet<NodeName> = pve
        .resources
        .hosts
        .iter()
        .filter(|host| host.status != "online")
        .map(|host| host.node.clone())
        .collect();
    for seen in pve.vms.values_mut() {
        if seen.config.is_err() && down.contains(&seen.host) {
            seen.config = Err(host_down());
        }
    }
}

/// Asks about every vmid that the plan will use, until each is known to be free, owned or taken.
async fn numbers(desired: &Desired, client: &Client, pve: &mut Pve) -> Result<(), PveError> {
    for _ in 0..ROUNDS {
        let places = places(desired, pve);
        let mut open: BTreeMap<VmId, Option<NodeName>> =
            places.unasked.iter().map(|vmid| (*vmid, None)).collect();
        for placed in &places.nodes {
            if let Some(host) = open.get_mut(&placed.own.vm.vmid) {
                *host = Some(placed.own.vm.node.clone());
            }
        }
        // A VM with a create or clone lock is asked about too, because its task may still run.
        for (vmid, seen) in &pve.vms {
            let lock = seen.config.as_ref().ok().and_then(VmConfig::lock);
            if matches!(lock, Some("create" | "clone")) && !pve.ids.contains_key(vmid) {
                open.insert(*vmid, Some(seen.host.clone()));
            }
        }
        drop(places);
        if open.is_empty() {
            return Ok(());
        }
        let templates = templates(desired, pve);
        let mut looks = JoinSet::new();
        for (vmid, host) in open {
            let (client, templates) = (client.clone(), templates.clone());
            let login = desired.login.id();
            let guest = pve.guest(vmid).cloned();
            let host = guest.as_ref().map(|guest| guest.node.clone()).or(host);
            let seen = pve.vms.get(&vmid).and_then(|seen| seen.config.as_ref().ok());
            let is_known = seen.is_some_and(|config| config.lock().is_none());
            looks.spawn(async move {
                let id = number(&client, &login, vmid, host.clone(), guest, &templates).await;
                let is_made = matches!(id, Ok(IdSeen::Taken { making: None, .. }));
                let new = match host {
                    Some(host) if is_made && !is_known => Some(new_vm(&client, &host, vmid).await),
                    _ => None,
                };
                (vmid, id, new)
            });
        }
        for (vmid, id, new) in looks.join_all().await {
            pve.ids.insert(vmid, id?);
            let Some(new) = new else { continue };
            // A VM that the token cannot see is reported by its vmid. Every other VM that cannot be read may belong to this
            // cluster.
            let is_listed = pve.guest(vmid).is_some() && !pve.vms.contains_key(&vmid);
            match &new.config {
                Ok(_) => {
                    pve.vms.insert(vmid, new);
                }
                Err(reason) if is_listed => {
                    let (host, reason) = (new.host.clone(), reason.clone());
                    pve.unread.insert(vmid, Unread { host, reason });
                }
                Err(_) => {}
            }
        }
    }
    Ok(())
}

/// Reads a VM that was not listed before, or was not completely created. An earlier run may have started to create the VM, and
/// its task may have ended since. Without this read, the VM would be created twice.
async fn new_vm(client: &Client, host: &NodeName, vmid: VmId) -> VmSeen {
    let vm = Vm::new(host, vmid);
    let seen = see(client, &vm).await;
    if seen.config.is_err() {
        return seen;
    }
    VmSeen { is_running: is_running(client, &vm).await, ..seen }
}

/// State of a vmid. `guest` is the VM in the list of all resources, if the token can see it. `templates` are the templates
/// that nodes are cloned from.
async fn number(
    client: &Client,
    login: &str,
    vmid: VmId,
    host: Option<NodeName>,
    guest: Option<Guest>,
    templates: &BTreeSet<VmId>,
) -> Result<IdSeen, PveError> {
    if is_free(client, vmid).await? {
        return Ok(IdSeen::Free);
    }
    let is_hidden = guest.is_none();
    let lock = guest.and_then(|guest| guest.lock);
    let lock = lock.filter(|lock| matches!(lock.as_str(), "create" | "clone"));
    let unknown = IdSeen::Taken { making: None, made_by_login: false, lock: lock.clone() };
    let Some(host) = host else { return Ok(unknown) };
    if is_hidden || lock.as_deref() == Some("clone") {
        let making = running_clone(client, &host, templates).await?;
        if making.is_some() {
            return Ok(IdSeen::Taken { making, made_by_login: true, lock });
        }
    }
    let filter = Filter { vmid: Some(vmid), ..Filter::default() };
    let Some(tasks) = tasks(client, &host, &filter).await? else { return Ok(unknown) };
    // Without further rights Proxmox lists only the tasks of this login, the newest first.
    let makes = |kind: &str| matches!(kind, "qmcreate" | "qmclone");
    let is_left = is_hidden && renamed_vm::is_left_by(login, &tasks);
    let Some(last) = tasks.into_iter().find(|task| makes(task.upid.kind())) else {
        return Ok(if is_left {
            IdSeen::Taken { making: None, made_by_login: true, lock }
        } else {
            unknown
        });
    };
    Ok(match last.state {
        TaskState::Running => IdSeen::Taken { making: Some(last.upid), made_by_login: true, lock },
        TaskState::Done { .. } => {
            IdSeen::Taken { making: None, made_by_login: lock.is_some() || is_left, lock }
        }
        // The task removed its VM after the check of the vmid above.
        TaskState::Undecided | TaskState::Failed { .. } if is_free(client, vmid).await? => {
            IdSeen::Free
        }
        // If the host failed during the task, the VM has no pool yet, so the token cannot see it.
        TaskState::Undecided | TaskState::Failed { .. } => {
            let lock = lock.or_else(|| is_hidden.then(|| "create".to_owned()));
            IdSeen::Taken { making: None, made_by_login: true, lock }
        }
    })
}

/// The tasks of a host. None if the host does not answer: one such host must not prevent the observation of the others. None
/// is safe, because talmox never creates a VM with a vmid that is in use, independent of the tasks.
async fn tasks(
    client: &Client,
    host: &NodeName,
    filter: &Filter,
) -> Result<Option<Vec<TaskEntry>>, PveError> {
    match client.send(&task::list(host, filter)).await {
        Ok(tasks) => Ok(Some(tasks)),
        Err(error) if error.is_node_scoped() => Ok(None),
        Err(error) => Err(error),
    }
}

/// A running clone task of this login. The task has the vmid of the template and not that of the clone. So every running
/// clone of a template may be the one that creates the VM.
async fn running_clone(
    client: &Client,
    host: &NodeName,
    templates: &BTreeSet<VmId>,
) -> Result<Option<Upid>, PveError> {
    if templates.is_empty() {
        return Ok(None);
    }
    let filter = Filter { kind: Some("qmclone".to_owned()), ..Filter::default() };
    let Some(tasks) = tasks(client, host, &filter).await? else { return Ok(None) };
    let is_of = |upid: &Upid| templates.iter().any(|vmid| vmid.to_string() == upid.id());
    let mut running = tasks.into_iter().filter(|task| task.state == TaskState::Running);
    Ok(running.find(|task| is_of(&task.upid)).map(|task| task.upid))
}

/// The first free vmids from `first` on, without those that the inventory sets for nodes.
pub(super) async fn free_numbers(
    desired: &Desired,
    client: &Client,
    first: u32,
    count: usize,
) -> Vec<VmId> {
    let mut free = vec![];
    for number in (first..).take(count + ROUNDS) {
        let Ok(vmid) = VmId::new(number) else { break };
        if free.len() == count {
            break;
        }
        let is_meant = desired.nodes.iter().any(|node| node.vmid == Some(vmid));
        if !is_meant && client.send(&cluster::is_free(vmid)).await.is_ok() {
            free.push(vmid);
        }
    }
    free
}

/// Reads details that the creation of VMs depends on: files on storages, the storages themselves, and bridges.
async fn details(desired: &Desired, client: &Client, pve: &mut Pve) {
    let mut hosts: BTreeSet<NodeName> = BTreeSet::new();
    let mut image_hosts: BTreeSet<NodeName> = BTreeSet::new();
    let mut storage_hosts: BTreeSet<NodeName> = BTreeSet::new();
    let is_new = |one: &Placed<'_>| matches!(one.state, VmPresence::Absent);
    // A run that failed may have left the config of a node on the storage.
    let may_have_upload = |one: &&Placed<'_>| {
        let is_made = matches!(&one.state, VmPresence::Owned(vm) if vm.marker.stage == Stage::Made);
        is_made && one.node.vm.cidata.is_some() && pve.is_online(&one.own.vm.node)
    };
    let nodes = places(desired, pve).nodes;
    let upload_hosts: BTreeSet<NodeName> =
        nodes.iter().filter(may_have_upload).map(|placed| placed.own.vm.node.clone()).collect();
    let new = nodes.into_iter().filter(is_new);
    let new = new.map(|placed| (placed.node, placed.own.vm.node));
    let templates = missing_templates(desired, pve).into_iter();
    for (node, host) in new.chain(templates.map(|template| (template.node, template.host))) {
        let host = &host;
        if !pve.is_online(host) {
            continue;
        }
        let has_image = node.image.is_some() || node.template_image.is_some();
        if has_image {
            image_hosts.insert(host.clone());
        }
        // The list of all resources omits storages on which the token may only create disks.
        let images = has_image.then_some(&desired.image_storage);
        let mut storages = node.vm.room().map(|(storage, _)| storage).chain(images);
        if storages.any(|storage| pve.storage(host, storage).is_none()) {
            storage_hosts.insert(host.clone());
        }
        hosts.insert(host.clone());
    }
    let storage = desired.image_storage.clone();
    let mut contents = JoinSet::new();
    for host in image_hosts.union(&upload_hosts).cloned() {
        let request = storage::content(&host, &storage, Some(Content::Import), None);
        let (client, storage) = (client.clone(), storage.clone());
        contents.spawn(async move { ((host, storage), answer(client.send(&request).await)) });
    }
    let mut bridges = JoinSet::new();
    for host in hosts {
        let client = client.clone();
        bridges.spawn(async move {
            let bridges = answer(client.send(&node::bridges(&host)).await);
            (host, bridges)
        });
    }
    let mut storages = JoinSet::new();
    for host in storage_hosts {
        let client = client.clone();
        storages.spawn(async move {
            let storages = answer(client.send(&storage::on_node(&host)).await);
            (host, storages)
        });
    }
    pve.contents = contents.join_all().await.into_iter().collect();
    // Other files of a host that gets no new VM do not concern the plan. The images concern a plan that replaces a node.
    let images = desired.nodes.iter().flat_map(|node| [&node.image, &node.template_image]);
    let images: Vec<VolumeId> =
        images.flatten().map(|image| image.volume(&desired.image_storage)).collect();
    for ((host, _), files) in &mut pve.contents {
        if let Ok(files) = files
            && !image_hosts.contains(host)
        {
            let is_needed = |file: &Volume| {
                images.contains(&file.volid) || is_upload_of(desired, file.volid.file_name())
            };
            files.retain(is_needed);
        }
    }
    pve.bridges = bridges.join_all().await.into_iter().collect();
    for (host, listed) in storages.join_all().await {
        match listed {
            Ok(found) => add_storages(pve, &host, found),
            Err(reason) => {
                pve.unlisted.insert(host, reason);
            }
        }
    }
}

/// Adds the storages that a host reports and that the list of all resources omits.
fn add_storages(pve: &mut Pve, host: &NodeName, found: Vec<StorageStatus>) {
    for one in found {
        let Some(storage) = one.storage else { continue };
        if pve.storage(host, &storage).is_some() {
            continue;
        }
        let status = match (one.enabled, one.active) {
            (true, true) => "available",
            (true, false) => "not active",
            (false, _) => "disabled",
        };
        pve.resources.storages.push(StorageResource {
            storage,
            node: host.clone(),
            status: status.to_owned(),
            shared: one.shared,
            kind: Some(one.kind),
            content: one.content,
            total: one.total,
            used: one.used,
        });
    }
}
