//! Placement: the vmid and the host of the VM of each node, and whether an owned VM exists there.

use std::collections::{BTreeMap, BTreeSet};

use talmox_pve_types::api::qemu::Vm;
use talmox_pve_types::id::{Upid, VmId};
use talmox_pve_types::property::Tags;

use super::host_choice::spread;
use super::placed::{ObservedVm, Placed, Placements, RENAMED, VmPresence};
use super::{foreign_vm, hidden_vm, lost_marker, shared_secrets, unreadable, vmid};
use crate::desired::{Desired, DesiredNode};
use crate::observed::{IdSeen, Pve, VmSeen};
use crate::ownership::{Marker, Owner, Stage, UnmarkedSign, unfinished_vm_hint};
use crate::plan::{Action, Finding, FindingCode, OwnVm, Plan};

/// The owned VM of each node. None for a node without an owned VM.
pub fn locations<'a>(desired: &'a Desired, pve: &Pve) -> Vec<(&'a DesiredNode, Option<Vm>)> {
    located(desired, pve, |state| matches!(state, VmPresence::Owned(_)))
}

/// The VM that each node has after a plan for this state was executed.
pub fn future_locations<'a>(desired: &'a Desired, pve: &Pve) -> Vec<(&'a DesiredNode, Option<Vm>)> {
    located(desired, pve, |state| !matches!(state, VmPresence::Blocked))
}

/// The VM that each node has after this plan was executed. A VM that the plan migrates or replaces may be on another host.
pub fn locations_after<'a>(
    desired: &'a Desired,
    pve: &Pve,
    plan: &Plan,
) -> Vec<(&'a DesiredNode, Option<Vm>)> {
    let mut all = future_locations(desired, pve);
    for step in &plan.steps {
        let (own, vm) = match &step.action {
            Action::MigrateVm(migrate) => {
                (&migrate.own, Vm::new(&migrate.target, migrate.own.vm.vmid))
            }
            Action::CreateVm(create) => (&create.own, create.own.vm.clone()),
            Action::CloneVm(clone) => (&clone.own, clone.own.vm.clone()),
            _ => continue,
        };
        let node = all.iter_mut().find(|(node, _)| node.name == own.identity.node);
        if let Some((_, place)) = node {
            *place = Some(vm);
        }
    }
    all
}

/// The nodes that are known to have no VM. A node whose VM may be hidden or unreadable is not among them.
pub fn absent(desired: &Desired, pve: &Pve) -> BTreeSet<String> {
    let places = places(desired, pve);
    let is_absent = |placed: &&Placed<'_>| {
        matches!(placed.state, VmPresence::Absent) && !places.unasked.contains(&placed.own.vm.vmid)
    };
    let may_be_hidden = !pve.unread.is_empty() || hidden_vm::left_by_login(pve).next().is_some();
    let absent = places.nodes.iter().filter(is_absent).filter(|_| !may_be_hidden);
    absent.map(|placed| placed.node.name.clone()).collect()
}

/// Descriptions of VMs that may conflict with nodes without an owned VM, by the name of the node. Such a VM is a foreign VM
/// with the vmid, name or UUID of the node, or an unreadable VM that may be the VM of the node.
pub fn foreign_vms(desired: &Desired, pve: &Pve) -> BTreeMap<String, String> {
    let places = places(desired, pve);
    let foreign = foreign_vm::missing(desired, &places).into_iter().filter_map(|node| {
        let foreign = foreign_vm::find(desired, node, pve).map(|foreign| foreign.to_string());
        Some((node.name.clone(), foreign.or_else(|| unread_vm(desired, node, pve))?))
    });
    foreign.collect()
}

fn located<'a>(
    desired: &'a Desired,
    pve: &Pve,
    counts: impl Fn(&VmPresence<'_>) -> bool,
) -> Vec<(&'a DesiredNode, Option<Vm>)> {
    let places = places(desired, pve);
    let found = desired.nodes.iter().map(|node| {
        let mut own = places.nodes.iter().filter(|placed| placed.node.name == node.name);
        let own = own.find(|placed| counts(&placed.state));
        (node, own.map(|placed| placed.own.vm.clone()))
    });
    found.collect()
}

pub fn places<'a>(desired: &'a Desired, pve: &'a Pve) -> Placements<'a> {
    let mut places = Placements::default();
    let mut owned: BTreeMap<String, (VmId, ObservedVm<'a>)> = BTreeMap::new();
    for (vmid, found) in owned_vms(desired, pve) {
        let name = found.marker.node.clone();
        if let Some((first, _)) = owned.get(&name) {
            places.troubles.push(
                Finding::error(
                    FindingCode::VmDuplicate,
                    &name,
                    format!("VM {first} and VM {vmid} both have its marker and UUID"),
                )
                .hint("remove talmox's line from the notes of the one that is a copy"),
            );
        } else {
            owned.insert(name, (vmid, found));
        }
    }
    let names: BTreeSet<String> = owned.keys().cloned().collect();
    let places_of: BTreeMap<VmId, String> =
        owned.iter().map(|(name, (vmid, _))| (*vmid, name.clone())).collect();
    let derived = vmid::derive(desired, pve, &places_of);
    let standing = owned.iter().map(|(name, (_, found))| (&**name, found.seen.host.clone()));
    let hosts = spread(desired, pve, &standing.collect());
    for node in &desired.nodes {
        let identity = desired.identity_of(&node.name);
        if let Some((vmid, found)) = owned.remove(&node.name) {
            let vm = Vm::new(&found.seen.host, vmid);
            let state = match lock_of(&found, pve.ids.get(&vmid)) {
                CreateLock::None => VmPresence::Owned(found),
                CreateLock::Making(upid) => VmPresence::BeingMade(upid),
                CreateLock::Stuck(lock) => {
                    places.troubles.push(locked(&node.name, &vm, &lock));
                    VmPresence::Blocked
                }
            };
            places.nodes.push(Placed { node, own: OwnVm { vm, identity }, state });
            continue;
        }
        if let Some(finding) = unproven_vm(desired, node, pve) {
            places.findings.push(finding);
            places.unmarked.extend(lost_marker::find(desired, node, pve));
            continue;
        }
        // An unreadable VM may be the VM of this node. An edited `vmid:` or `host:` does not prove the opposite.
        if let Some(found) = unreadable::of_node(desired, node, pve, &names) {
            let (message, hint) = (found.message(), found.hint(pve));
            places
                .findings
                .push(Finding::error(FindingCode::VmUnreadable, &node.name, message).hint(hint));
            continue;
        }
        let Some(vmid) = node.vmid.or_else(|| derived.get(&*node.name).copied()) else {
            let (first, last) = desired.vmid_range;
            places.findings.push(
                Finding::error(
                    FindingCode::VmidNoneFree,
                    &node.name,
                    format!("no vmid from {first} to {last} is free"),
                )
                .hint("widen `proxmox: {vmid_range: …}`"),
            );
            continue;
        };
        let other = places_of.get(&vmid);
        let (state, finding) = match other {
            Some(other) => (VmPresence::Blocked, Some(taken_by(desired, node, vmid, other))),
            None => state_of(desired, node, vmid, pve, &mut places.unasked),
        };
        let (state, finding) = match marked_vm(desired, node, pve) {
            Some(marked) if matches!(state, VmPresence::Absent) => {
                (VmPresence::Blocked, Some(marked))
            }
            _ => (state, finding),
        };
        places.findings.extend(finding);
        let making = match &state {
            VmPresence::BeingMade(upid) => Some(upid.node()),
            _ => None,
        };
        let Some(host) = making.or(node.host.as_ref()).or_else(|| hosts.get(&*node.name)) else {
            places.findings.push(
                Finding::error(
                    FindingCode::HostUnset,
                    &node.name,
                    "the inventory names no host for it",
                )
                .hint("add `proxmox: {node: …}`, or `host: …` to the node"),
            );
            continue;
        };
        let vm = Vm::new(host, vmid);
        places.nodes.push(Placed { node, own: OwnVm { vm, identity }, state });
    }
    for (name, (vmid, found)) in owned {
        let identity = desired.identity_of_vm(&found.marker, found.config);
        let own = OwnVm { vm: Vm::new(&found.seen.host, vmid), identity };
        if shared_secrets::is_of_another(desired, found.config) {
            places.shared.push((own, found));
            continue;
        }
        // A task may still be creating the VM.
        places.troubles.extend(match lock_of(&found, pve.ids.get(&vmid)) {
            CreateLock::None => None,
            CreateLock::Making(upid) => Some(being_made(&name, &upid)),
            CreateLock::Stuck(lock) => Some(locked(&name, &own.vm, &lock)),
        });
        places.removed.push((own, found));
    }
    shared_secrets::part(desired, &mut places);
    places
}

/// The owned VMs of this cluster.
fn owned_vms<'a>(desired: &Desired, pve: &'a Pve) -> Vec<(VmId, ObservedVm<'a>)> {
    let found = |(vmid, seen): (&VmId, &'a VmSeen)| {
        let config = seen.config.as_ref().ok()?;
        let marker = Marker::find(config.description())?;
        if marker.cluster != desired.mark || config.is_template() {
            return None;
        }
        match desired.identity_of_vm(&marker, config).judge(config) {
            Owner::Owned(marker) => Some((*vmid, ObservedVm { seen, config, marker })),
            Owner::Foreign { .. } => None,
        }
    };
    pve.vms.iter().filter_map(found).collect()
}

enum CreateLock {
    None,
    Making(Upid),
    Stuck(String),
}

/// The lock of a create or clone. Locks of other kinds are ignored.
fn lock_of(found: &ObservedVm<'_>, id: Option<&IdSeen>) -> CreateLock {
    let Some(lock @ ("create" | "clone")) = found.config.lock() else { return CreateLock::None };
    match id {
        Some(IdSeen::Taken { making: Some(upid), .. }) => CreateLock::Making(upid.clone()),
        _ => CreateLock::Stuck(lock.to_owned()),
    }
}

pub(super) fn being_made(node: &str, upid: &Upid) -> Finding {
    Finding::error(FindingCode::VmBeingCreated, node, format!("a task is creating its VM ({upid})"))
        .hint("wait for the task, then run the same command")
}

/// The error about an owned VM with the lock of a create or clone, if no known task holds the lock. A restore from a backup
/// takes the same lock, so the VM may contain data. So the hint does not advise to delete the VM.
fn locked(node: &str, vm: &Vm, lock: &str) -> Finding {
    let Vm { node: host, vmid } = vm;
    let message = format!("VM {vmid} is locked ({lock}), and no task of this token holds the lock");
    Finding::error(FindingCode::VmLocked, node, message).hint(format!(
        "wait until no task works on VM {vmid} (a restore from a backup takes this lock too); if none does, on {host}: \
         qm unlock {vmid}. Then run the same command"
    ))
}

/// The error about a VM that a create or clone of this token left behind. The VM has neither a marker nor a name.
pub(super) fn stuck(node: &str, vmid: VmId, lock: &str) -> Finding {
    let message = format!("an interrupted task left VM {vmid} unfinished and locked ({lock})");
    Finding::error(FindingCode::VmUnfinished, node, message)
        .hint(unfinished_vm_hint(vmid, "its host"))
}

/// The error about a foreign VM with the UUID of a node. talmox derives the UUID from the node, so this is probably the VM of
/// the node, and a new VM would be a duplicate.
fn unproven_vm(desired: &Desired, node: &DesiredNode, pve: &Pve) -> Option<Finding> {
    let uuid = node.identity.uuid.to_string();
    let (vmid, config) = pve.vms.iter().find_map(|(vmid, seen)| {
        let config = seen.config.as_ref().ok()?;
        (config.smbios().uuid.as_ref() == Some(&uuid)).then_some((vmid, config))
    })?;
    let identity = desired.identity_of(&node.name);
    let Owner::Foreign { reason } = identity.judge(config) else { return None };
    let marker = Marker {
        cluster: identity.cluster,
        node: identity.node,
        stage: Stage::Made,
        data: node.user_data_mark(),
        are_tags_rejected: false,
        // The role of the VM before its notes were lost is not known.
        first_role: None,
        own_tags: Tags::default(),
        notes: None,
    };
    let message = format!("VM {vmid} has its UUID, but is not provably an owned VM: {reason}");
    let hint = format!("if it is the VM of {}, put this line into its notes: {marker}", node.name);
    Some(Finding::error(FindingCode::VmUnproven, &node.name, message).hint(hint))
}

/// The error about a VM with another UUID that has the marker of a node, or its name and the tags of the cluster. The node has no
/// owned VM, so it may be the VM of the node, such as an adopted VM whose `uuid:` was removed from the inventory. A new VM would be
/// a duplicate.
fn marked_vm(desired: &Desired, node: &DesiredNode, pve: &Pve) -> Option<Finding> {
    let (vmid, config, is_marked) = pve.vms.iter().find_map(|(vmid, seen)| {
        let config = seen.config.as_ref().ok().filter(|config| !config.is_template())?;
        let marker = Marker::find(config.description());
        let is_marked =
            marker.is_some_and(|marker| marker.cluster == desired.mark && marker.node == node.name);
        let is_tagged =
            UnmarkedSign::find(config, &desired.cluster, false) == Some(UnmarkedSign::Tags);
        let is_named = config.name() == Some(node.name.as_str());
        (is_marked || (is_tagged && is_named)).then_some((*vmid, config, is_marked))
    })?;
    let uuid = config.smbios().uuid.unwrap_or_else(|| "none".to_owned());
    let (name, own) = (&node.name, node.identity.uuid);
    let (sign, hint) = if is_marked {
        let hint = format!(
            "if it is the VM of {name}, add `uuid: {uuid}` to the node; if it is a copy, remove talmox's line from its notes"
        );
        ("its marker", hint)
    } else {
        let hint = UnmarkedSign::Tags.hint(vmid, &desired.cluster, &desired.mark);
        ("its name and the tags of the cluster", hint)
    };
    let message = format!(
        "VM {vmid} has {sign}, but the UUID {uuid} and not {own}: it may be its VM, so no second one is created"
    );
    Some(Finding::error(FindingCode::VmUnproven, name, message).hint(hint))
}

/// The unreadable VM that may be the VM of a node: the VM with its vmid, otherwise the VM with its name, otherwise any
/// unreadable VM.
pub(super) fn unread_vm(desired: &Desired, node: &DesiredNode, pve: &Pve) -> Option<String> {
    let numbered = node.vmid.and_then(|vmid| pve.vms.get_key_value(&vmid));
    if let Some((vmid, VmSeen { host, config: Err(reason), .. })) = numbered {
        return Some(format!("VM {vmid} on {host} cannot be read: {reason}"));
    }
    let owned = owned_vms(desired, pve).into_iter().map(|(_, found)| found.marker.node).collect();
    unreadable::of_node(desired, node, pve, &owned).map(|found| found.message())
}

/// The error about a vmid that the VM of another node has.
fn taken_by(desired: &Desired, node: &DesiredNode, vmid: VmId, other: &str) -> Finding {
    if desired.node(other).is_some() {
        let message = format!("vmid {vmid} belongs to {other}");
        let hint = "give the node another `vmid:`, or none: a VM keeps its vmid";
        return Finding::error(FindingCode::VmidInUse, &node.name, message).hint(hint);
    }
    let message = format!("vmid {vmid} belongs to {other}, which is no longer in the inventory");
    Finding::error(FindingCode::VmidInUse, &node.name, message).hint(RENAMED)
}

/// State of a vmid that no owned VM has, with a finding if the vmid cannot be used.
fn state_of<'a>(
    desired: &Desired,
    node: &DesiredNode,
    vmid: VmId,
    pve: &Pve,
    unasked: &mut BTreeSet<VmId>,
) -> (VmPresence<'a>, Option<Finding>) {
    let name = &node.name;
    match pve.ids.get(&vmid) {
        Some(IdSeen::Free) => return (VmPresence::Absent, None),
        Some(IdSeen::Taken { making: Some(upid), .. }) => {
            return (VmPresence::BeingMade(upid.clone()), None);
        }
        Some(IdSeen::Taken { made_by_login: true, lock: Some(lock), .. }) => {
            return (VmPresence::Blocked, Some(stuck(name, vmid, lock)));
        }
        Some(IdSeen::Taken { made_by_login: true, .. }) if hidden_vm::is_hidden(pve, vmid) => {
            return (VmPresence::Blocked, Some(hidden_vm::finding(desired, node, vmid)));
        }
        Some(IdSeen::Taken { .. }) => {}
        None => {
            unasked.insert(vmid);
            if pve.guest(vmid).is_none() {
                return (VmPresence::Absent, None);
            }
        }
    }
    if let Some(VmSeen { host, config: Err(reason), .. }) = pve.vms.get(&vmid) {
        let message = format!("VM {vmid} on {host} cannot be read: {reason}");
        let hint = unreadable::hint(vmid, host, pve);
        return (
            VmPresence::Blocked,
            Some(Finding::error(FindingCode::VmUnreadable, name, message).hint(hint)),
        );
    }
    let called = pve.guest(vmid).and_then(|guest| guest.name.clone());
    let called = called.map(|name| format!(" ({name})")).unwrap_or_default();
    let why = foreign_vm::find(desired, node, pve).map(|foreign| format!(": {}", foreign.reason));
    let why = why.unwrap_or_default();
    let message =
        format!("vmid {vmid} is used by another VM{called}, which talmox does not manage{why}");
    let hint = "give the node another `vmid:`, or none; talmox never changes that VM";
    (VmPresence::Blocked, Some(Finding::error(FindingCode::VmForeign, name, message).hint(hint)))
}
