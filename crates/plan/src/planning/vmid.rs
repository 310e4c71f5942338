//! Derivation of vmids from the names of nodes, for nodes without `vmid:`.
//!
//! The vmid of a node must not depend on the position of the node in the inventory. If a node is inserted or removed,
//! `destroy` and `up` must give every other node the same vmid again. Existing VMs keep their vmids, because talmox finds
//! them by their markers.
//!
//! Two nodes with the same role and number, such as `wk-1` and `gpu-1`, have the same claim to a vmid at the start of the
//! range. Neither gets it: a rule that prefers one of them could give the vmid of one node to the other after `destroy` and
//! `up`. Both get vmids that are derived from their full names.

use std::collections::{BTreeMap, BTreeSet};

use talmox_pve_types::id::VmId;

use super::hidden_vm;
use crate::desired::{Desired, DesiredNode};
use crate::observed::{IdSeen, Pve};

/// Number of vmids, from the start of the range, for names that end with a number. A larger number in a name is probably not
/// a count of nodes, but for example a date.
const NUMBERED: u64 = 10_000;

/// Number of vmids, from the start of the range, for other names. It is small, so that these vmids are short.
const HASHED: u64 = 1000;

/// Minimum length of a range whose second half is used for names without a number. Shorter ranges have too few vmids for
/// this.
const HALVED: u64 = 20;

/// The vmids of nodes that have neither `vmid:` nor an owned VM. `owned` contains all owned VMs, including orphans.
pub(super) fn derive<'a>(
    desired: &'a Desired,
    pve: &Pve,
    owned: &BTreeMap<VmId, String>,
) -> BTreeMap<&'a str, VmId> {
    let mut taken: BTreeSet<VmId> = desired.nodes.iter().filter_map(|node| node.vmid).collect();
    taken.extend(owned.keys());
    let names: BTreeSet<&str> = owned.values().map(String::as_str).collect();
    let is_open = |node: &&DesiredNode| node.vmid.is_none() && !names.contains(&*node.name);
    let mut open: Vec<&DesiredNode> = desired.nodes.iter().filter(is_open).collect();
    // Two nodes may prefer the same vmid. Their order in the inventory must not decide which node gets it.
    open.sort_by(|one, other| one.name.cmp(&other.name));
    let (first, last) = desired.vmid_range;
    let size = u64::from(last.saturating_sub(first)) + 1;
    let mut take = |offset: u64| {
        let vmid = VmId::new(first + u32::try_from(offset).ok()?).ok()?;
        (!is_foreign(pve, vmid) && taken.insert(vmid)).then_some(vmid)
    };
    let mut found = BTreeMap::new();
    let mut others = vec![];
    for node in open {
        let offset = numbered_offset(node).filter(|offset| *offset < size);
        match offset.filter(|_| !is_contested(desired, node)).and_then(&mut take) {
            Some(vmid) => {
                found.insert(&*node.name, vmid);
            }
            None => others.push(node),
        }
    }
    for node in others {
        let end = size.min(HASHED);
        let start = if size >= HALVED { end / 2 } else { 0 };
        let hashed = hashed_offsets(node, end - start).map(|offset| start + offset);
        if let Some(vmid) = hashed.chain(0..size).find_map(&mut take) {
            found.insert(&*node.name, vmid);
        }
    }
    found
}

/// Whether another node of the inventory has the same role and number. Nodes with `vmid:` do not count.
fn is_contested(desired: &Desired, node: &DesiredNode) -> bool {
    let offset = numbered_offset(node);
    let mut others = desired.nodes.iter().filter(|other| other.name != node.name);
    others.any(|other| other.vmid.is_none() && numbered_offset(other) == offset)
}

/// All offsets below `length`, in an order that depends only on the name of the node and the cluster. The first offset and the
/// distance to the next are two hashes, so two nodes with the same first offset rarely have the same second one.
fn hashed_offsets(node: &DesiredNode, length: u64) -> impl Iterator<Item = u64> {
    let uuid = node.identity.uuid;
    let first = uuid.low_bits() % length;
    // Only a distance without a common divisor leads to every offset.
    let start = 1 + uuid.high_bits() % length;
    let mut distances = start..=start + length;
    let distance = distances.find(|distance| gcd(*distance, length) == 1).unwrap_or(1) % length;
    (0..length).map(move |step| (first + step * distance) % length)
}

fn gcd(one: u64, other: u64) -> u64 {
    if other == 0 { one } else { gcd(other, one % other) }
}

/// The offset in the range for a name that ends with a number. The order is: control planes 1 to 3, workers 1 to 5, control
/// planes 4 and 5, then workers from 6 on. The offset does not depend on other nodes, so nodes can be added in any order.
fn numbered_offset(node: &DesiredNode) -> Option<u64> {
    let stem = node.name.trim_end_matches(|c: char| c.is_ascii_digit());
    let number: u64 = node.name.strip_prefix(stem)?.parse().ok()?;
    match (node.is_control_plane, number) {
        (_, 0) | (true, 6..) => None,
        (true, 1..=3) => Some(number - 1),
        (true, 4..=5) => Some(number + 4),
        (false, 1..=5) => Some(number + 2),
        (false, 6..) => Some(number.saturating_add(4)).filter(|offset| *offset < NUMBERED),
    }
}

/// Whether a vmid is known to belong to a VM that is not part of this cluster.
fn is_foreign(pve: &Pve, vmid: VmId) -> bool {
    match pve.ids.get(&vmid) {
        Some(IdSeen::Free | IdSeen::Taken { making: Some(_), .. }) => false,
        // A VM that an interrupted run left behind must be reported, so its vmid is not skipped.
        Some(IdSeen::Taken { made_by_login, lock, .. }) => {
            !(*made_by_login && (lock.is_some() || hidden_vm::is_hidden(pve, vmid)))
        }
        None => pve.guest(vmid).is_some_and(|guest| !is_half_made(guest.lock.as_deref())),
    }
}

/// Whether Proxmox holds this lock while it creates or clones a VM. Until that task ends, the VM has neither a name nor a
/// marker.
fn is_half_made(lock: Option<&str>) -> bool {
    matches!(lock, Some("create" | "clone"))
}
