//! Where each node's VM is, or is going to be: its number, its host, and whose it is now.

use std::collections::{BTreeMap, BTreeSet};

use talmox_pve::api::qemu::Vm;
use talmox_pve::config::VmConfig;
use talmox_pve::id::{Upid, VmId};

use super::action::OwnVm;
use super::change::Finding;
use super::spread::spread;
use super::vm::user_data_mark;
use super::{hidden, shared, stranger, unread};
use crate::desired::{Desired, DesiredNode};
use crate::observe::{IdSeen, Pve, VmSeen};
use crate::ownership::{Marker, Owner, Stage};

/// What to do about a node that got another name.
pub(super) const RENAMED: &str = "a node that gets another name is one that goes and one that comes. Keep the old name; \
     or let the old node stay, and give the new one a vmid and an address of its own";

/// A node's VM at its place.
#[derive(Clone, Debug)]
pub(crate) struct Placed<'a> {
    pub(crate) node: &'a DesiredNode,
    pub(crate) own: OwnVm,
    pub(crate) state: State<'a>,
}

/// What is at that place.
#[derive(Clone, Debug)]
pub(crate) enum State<'a> {
    Absent,
    /// A task of ours is making it.
    BeingMade(Upid),
    Ours(Found<'a>),
    /// Something that is not ours, or cannot be gone on with.
    Blocked,
}

/// A VM of ours.
#[derive(Clone, Debug)]
pub(crate) struct Found<'a> {
    pub(crate) seen: &'a VmSeen,
    pub(crate) config: &'a VmConfig,
    pub(crate) marker: Marker,
}

/// All of them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Places<'a> {
    /// In the order of the inventory; nodes for which there is no place are left out.
    pub(crate) nodes: Vec<Placed<'a>>,
    /// VMs of ours for which the inventory has no node.
    pub(crate) removed: Vec<(OwnVm, Found<'a>)>,
    /// The same, but with the name of another cluster in tags or notes.
    pub(crate) shared: Vec<(OwnVm, Found<'a>)>,
    /// What is wrong with VMs of ours.
    pub(crate) troubles: Vec<Finding>,
    /// Why nodes have no place, or none that is free.
    pub(crate) findings: Vec<Finding>,
    /// Numbers that look free and were not asked about.
    pub(crate) unasked: BTreeSet<VmId>,
}

/// Where the VMs of the cluster's nodes are; none where a node has no VM of ours.
pub fn locations<'a>(desired: &'a Desired, pve: &Pve) -> Vec<(&'a DesiredNode, Option<Vm>)> {
    located(desired, pve, |state| matches!(state, State::Ours(_)))
}

/// The same once a plan for this world has been carried out.
pub fn future_locations<'a>(desired: &'a Desired, pve: &Pve) -> Vec<(&'a DesiredNode, Option<Vm>)> {
    located(desired, pve, |state| !matches!(state, State::Blocked))
}

/// The nodes that are known to have no VM: neither can one be somewhere where nobody can look.
pub fn absent(desired: &Desired, pve: &Pve) -> BTreeSet<String> {
    let places = places(desired, pve);
    let is_absent = |placed: &&Placed<'_>| {
        matches!(placed.state, State::Absent) && !places.unasked.contains(&placed.own.vm.vmid)
    };
    let absent = places.nodes.iter().filter(is_absent).filter(|_| pve.unread.is_empty());
    absent.map(|placed| placed.node.name.clone()).collect()
}

fn located<'a>(
    desired: &'a Desired,
    pve: &Pve,
    counts: impl Fn(&State<'_>) -> bool,
) -> Vec<(&'a DesiredNode, Option<Vm>)> {
    let places = places(desired, pve);
    let found = desired.nodes.iter().map(|node| {
        let mut own = places.nodes.iter().filter(|placed| placed.node.name == node.name);
        let own = own.find(|placed| counts(&placed.state));
        (node, own.map(|placed| placed.own.vm.clone()))
    });
    found.collect()
}

pub(crate) fn places<'a>(desired: &'a Desired, pve: &'a Pve) -> Places<'a> {
    let mut places = Places::default();
    let mut owned: BTreeMap<String, (VmId, Found<'a>)> = BTreeMap::new();
    for (vmid, found) in ours(desired, pve) {
        let name = found.marker.node.clone();
        if let Some((first, _)) = owned.get(&name) {
            places.troubles.push(
                Finding::error(
                    &name,
                    format!("VM {first} and VM {vmid} both say that they are it"),
                )
                .hint("take talmox's line out of the notes of the one that is a copy"),
            );
        } else {
            owned.insert(name, (vmid, found));
        }
    }
    let mut numbers = Numbers {
        taken: desired.nodes.iter().filter_map(|node| node.vmid).collect(),
        next: desired.vmid_range.0,
        last: desired.vmid_range.1,
    };
    numbers.taken.extend(owned.values().map(|(vmid, _)| *vmid));
    let names: BTreeSet<String> = owned.keys().cloned().collect();
    let places_of: BTreeMap<VmId, String> =
        owned.iter().map(|(name, (vmid, _))| (*vmid, name.clone())).collect();
    let standing = owned.iter().map(|(name, (_, found))| (&**name, found.seen.host.clone()));
    let hosts = spread(desired, pve, &standing.collect());
    for node in &desired.nodes {
        let identity = desired.identity_of(&node.name);
        if let Some((vmid, found)) = owned.remove(&node.name) {
            let vm = Vm::new(&found.seen.host, vmid);
            let state = match lock_of(&found, pve.ids.get(&vmid)) {
                Lock::None => State::Ours(found),
                Lock::Making(upid) => State::BeingMade(upid),
                Lock::Stuck(lock) => {
                    places.troubles.push(locked(&node.name, &vm, &lock));
                    State::Blocked
                }
            };
            places.nodes.push(Placed { node, own: OwnVm { vm, identity }, state });
            continue;
        }
        if let Some(finding) = estranged(desired, node, pve) {
            places.findings.push(finding);
            continue;
        }
        // A VM that cannot be read may be the one that is about to be created: an edited `vmid:` or `host:` proves nothing.
        if let Some(found) = unread::of_node(desired, node, pve, &names) {
            let (message, hint) = (found.message(), found.hint(pve));
            places.findings.push(Finding::error(&node.name, message).hint(hint));
            continue;
        }
        let Some(vmid) = node.vmid.or_else(|| numbers.take(pve)) else {
            let (first, last) = desired.vmid_range;
            places.findings.push(
                Finding::error(&node.name, format!("no vmid from {first} to {last} is free"))
                    .hint("widen `proxmox: {vmid_range: …}`"),
            );
            continue;
        };
        let other = places_of.get(&vmid);
        let (state, finding) = match other {
            Some(other) => (State::Blocked, Some(taken_by(desired, node, vmid, other))),
            None => state_of(desired, node, vmid, pve, &mut places.unasked),
        };
        places.findings.extend(finding);
        let making = match &state {
            State::BeingMade(upid) => Some(upid.node()),
            _ => None,
        };
        let Some(host) = making.or(node.host.as_ref()).or_else(|| hosts.get(&*node.name)) else {
            places.findings.push(
                Finding::error(&node.name, "no host is given for it")
                    .hint("add `proxmox: {node: …}`, or `host: …` to the node"),
            );
            continue;
        };
        let vm = Vm::new(host, vmid);
        places.nodes.push(Placed { node, own: OwnVm { vm, identity }, state });
    }
    for (name, (vmid, found)) in owned {
        let own =
            OwnVm { vm: Vm::new(&found.seen.host, vmid), identity: desired.identity_of(&name) };
        if shared::is_of_another(desired, found.config) {
            places.shared.push((own, found));
            continue;
        }
        // Who makes it may still be at it.
        places.troubles.extend(match lock_of(&found, pve.ids.get(&vmid)) {
            Lock::None => None,
            Lock::Making(upid) => Some(being_made(&name, &upid)),
            Lock::Stuck(lock) => Some(locked(&name, &own.vm, &lock)),
        });
        places.removed.push((own, found));
    }
    shared::part(desired, &mut places);
    places
}

/// The VMs that are provably of this cluster.
fn ours<'a>(desired: &Desired, pve: &'a Pve) -> Vec<(VmId, Found<'a>)> {
    let found = |(vmid, seen): (&VmId, &'a VmSeen)| {
        let config = seen.config.as_ref().ok()?;
        let marker = Marker::find(config.description())?;
        if marker.cluster != desired.mark || config.is_template() {
            return None;
        }
        match desired.identity_of(&marker.node).judge(config) {
            Owner::Ours(marker) => Some((*vmid, Found { seen, config, marker })),
            Owner::Other { .. } => None,
        }
    };
    pve.vms.iter().filter_map(found).collect()
}

enum Lock {
    None,
    Making(Upid),
    Stuck(String),
}

/// Locks of create and clone are ours; who holds any other will let go of it.
fn lock_of(found: &Found<'_>, id: Option<&IdSeen>) -> Lock {
    let Some(lock @ ("create" | "clone")) = found.config.lock() else { return Lock::None };
    match id {
        Some(IdSeen::Taken { making: Some(upid), .. }) => Lock::Making(upid.clone()),
        _ => Lock::Stuck(lock.to_owned()),
    }
}

pub(super) fn being_made(node: &str, upid: &Upid) -> Finding {
    Finding::error(node, format!("its VM is just being made ({upid})"))
        .hint("wait for the task, and run this again")
}

/// An owned VM with the lock of a create or clone that no known task holds. A restore from a backup takes the same lock, so
/// the VM may hold data: the hint never deletes it.
fn locked(node: &str, vm: &Vm, lock: &str) -> Finding {
    let Vm { node: host, vmid } = vm;
    let message = format!("VM {vmid} is locked ({lock}), and no task of this token holds the lock");
    Finding::error(node, message).hint(format!(
        "wait until no task works on VM {vmid} (a restore from a backup takes this lock too); if none does, on {host}: \
         qm unlock {vmid}. Then run the same command"
    ))
}

/// A number that a create or clone of this token reserved and left behind: the VM has neither a marker nor a name yet.
pub(super) fn stuck(node: &str, vmid: VmId, lock: &str) -> Finding {
    let message = format!("VM {vmid} was left behind half made, and locked ({lock})");
    Finding::error(node, message)
        .hint(format!("on its host: qm unlock {vmid} && qm destroy {vmid}"))
}

/// A VM with the UUID of a node that is not provably its own. Nobody else has that UUID, so a second VM
/// would be a double.
fn estranged(desired: &Desired, node: &DesiredNode, pve: &Pve) -> Option<Finding> {
    let uuid = node.identity.uuid.to_string();
    let (vmid, config) = pve.vms.iter().find_map(|(vmid, seen)| {
        let config = seen.config.as_ref().ok()?;
        (config.smbios().uuid.as_ref() == Some(&uuid)).then_some((vmid, config))
    })?;
    let identity = desired.identity_of(&node.name);
    let Owner::Other { reason } = identity.judge(config) else { return None };
    let marker = Marker {
        cluster: identity.cluster,
        node: identity.node,
        stage: Stage::Made,
        data: user_data_mark(node),
        are_tags_rejected: false,
    };
    let message = format!("VM {vmid} has its UUID, but is not provably ours: {reason}");
    let hint = format!("if it is the VM of {}, put this line into its notes: {marker}", node.name);
    Some(Finding::error(&node.name, message).hint(hint))
}

/// What may be the VM of a node, and cannot be read: the one of its number, or else of its name, or else any.
pub(super) fn unread_vm(desired: &Desired, node: &DesiredNode, pve: &Pve) -> Option<String> {
    let numbered = node.vmid.and_then(|vmid| pve.vms.get_key_value(&vmid));
    if let Some((vmid, VmSeen { host, config: Err(reason), .. })) = numbered {
        return Some(format!("VM {vmid} on {host} cannot be read: {reason}"));
    }
    let owned = ours(desired, pve).into_iter().map(|(_, found)| found.marker.node).collect();
    unread::of_node(desired, node, pve, &owned).map(|found| found.message())
}

/// The number of a node is that of another node's VM.
fn taken_by(desired: &Desired, node: &DesiredNode, vmid: VmId, other: &str) -> Finding {
    if desired.node(other).is_some() {
        let message = format!("vmid {vmid} is that of {other}");
        let hint = "a VM keeps its number: give the node another `vmid:`, or none";
        return Finding::error(&node.name, message).hint(hint);
    }
    let message = format!("vmid {vmid} is that of {other}, which the inventory has no longer");
    Finding::error(&node.name, message).hint(RENAMED)
}

/// What is at a number that no VM of ours has.
fn state_of<'a>(
    desired: &Desired,
    node: &DesiredNode,
    vmid: VmId,
    pve: &Pve,
    unasked: &mut BTreeSet<VmId>,
) -> (State<'a>, Option<Finding>) {
    let name = &node.name;
    match pve.ids.get(&vmid) {
        Some(IdSeen::Free) => return (State::Absent, None),
        Some(IdSeen::Taken { making: Some(upid), .. }) => {
            return (State::BeingMade(upid.clone()), None);
        }
        Some(IdSeen::Taken { made_by_us: true, lock: Some(lock), .. }) => {
            return (State::Blocked, Some(stuck(name, vmid, lock)));
        }
        Some(IdSeen::Taken { made_by_us: true, .. }) if hidden::is_hidden(pve, vmid) => {
            return (State::Blocked, Some(hidden::finding(desired, node, vmid)));
        }
        Some(IdSeen::Taken { .. }) => {}
        None => {
            unasked.insert(vmid);
            if pve.guest(vmid).is_none() {
                return (State::Absent, None);
            }
        }
    }
    if let Some(VmSeen { host, config: Err(reason), .. }) = pve.vms.get(&vmid) {
        let message = format!("VM {vmid} on {host} cannot be read: {reason}");
        let hint = unread::hint(vmid, host, pve);
        return (State::Blocked, Some(Finding::error(name, message).hint(hint)));
    }
    let called = pve.guest(vmid).and_then(|guest| guest.name.clone());
    let called = called.map(|name| format!(" ({name})")).unwrap_or_default();
    let why = stranger::find(desired, node, pve).map(|stranger| format!(": {}", stranger.reason));
    let why = why.unwrap_or_default();
    let message = format!("vmid {vmid} is taken by a VM{called} that is not ours{why}");
    let hint = "give the node another `vmid:`, or none; talmox never touches that VM";
    (State::Blocked, Some(Finding::error(name, message).hint(hint)))
}

/// Numbers for nodes without one: the first that nobody has.
struct Numbers {
    taken: BTreeSet<VmId>,
    next: u32,
    last: u32,
}

impl Numbers {
    fn take(&mut self, pve: &Pve) -> Option<VmId> {
        while self.next <= self.last {
            let vmid = VmId::new(self.next).ok()?;
            self.next += 1;
            let is_strange = match pve.ids.get(&vmid) {
                Some(IdSeen::Free | IdSeen::Taken { making: Some(_), .. }) => false,
                // What a crash of ours left behind must be seen, not gone around.
                Some(IdSeen::Taken { made_by_us, lock, .. }) => {
                    !(*made_by_us && (lock.is_some() || hidden::is_hidden(pve, vmid)))
                }
                None => {
                    let guest = pve.guest(vmid);
                    guest.is_some_and(|guest| !is_half_made(guest.lock.as_deref()))
                }
            };
            if !is_strange && self.taken.insert(vmid) {
                return Some(vmid);
            }
        }
        None
    }
}

/// Whether a lock is one under which VMs have neither name nor marker.
fn is_half_made(lock: Option<&str>) -> bool {
    matches!(lock, Some("create" | "clone"))
}
