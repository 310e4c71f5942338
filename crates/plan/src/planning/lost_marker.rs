//! VMs with the UUID of a node and without its marker, because a user replaced or deleted their notes.

use talmox_pve_types::api::qemu::Vm;
use talmox_pve_types::id::VmId;

use super::placed::UnmarkedVm;
use super::unreadable;
use crate::desired::{Desired, DesiredNode};
use crate::observed::{Pve, VmSeen};
use crate::ownership::{Identity, Marker};
use crate::plan::OwnVm;

/// The VM with the UUID of a node whose notes do not prove that it is the VM of the node.
pub(super) fn find(desired: &Desired, node: &DesiredNode, pve: &Pve) -> Option<UnmarkedVm> {
    let mut same = with_uuid(node, pve);
    let (vmid, seen) = same.next()?;
    let is_single = same.next().is_none();
    let identity = desired.identity_of(&node.name);
    let is_unmarked =
        seen.config.as_ref().is_ok_and(|config| identity.has_lost_marker(config, &desired.cluster));
    // The UUID of an adopted VM was not derived by talmox. Its tags and its UUID may be those of a VM that was never adopted.
    let is_derived = desired.derived_uuid(&node.name) == identity.uuid;
    // A VM with the marker of the node may be the VM of the node, and this one a copy of it.
    let is_unclaimed = !pve.vms.values().any(|seen| has_marker(seen, &identity));
    // So may be a VM that cannot be read.
    let is_all_read = pve.unread.is_empty() && unreadable::unreadable(pve).next().is_none();
    // The notes of other systems also contain the hash of their user-data, which is lost.
    let is_proven =
        node.is_talos && is_single && is_unmarked && is_derived && is_unclaimed && is_all_read;
    let own = OwnVm { vm: Vm::new(&seen.host, vmid), identity };
    Some(UnmarkedVm { own, is_proven })
}

/// Whether the notes of a VM have the marker of a node.
fn has_marker(seen: &VmSeen, identity: &Identity) -> bool {
    let marker = seen.config.as_ref().ok().and_then(|config| Marker::find(config.description()));
    marker.is_some_and(|marker| marker.cluster == identity.cluster && marker.node == identity.node)
}

fn with_uuid<'a>(node: &DesiredNode, pve: &'a Pve) -> impl Iterator<Item = (VmId, &'a VmSeen)> {
    let uuid = node.identity.uuid.to_string();
    pve.vms.iter().filter_map(move |(vmid, seen)| {
        let config = seen.config.as_ref().ok()?;
        (config.smbios().uuid.as_ref() == Some(&uuid)).then_some((*vmid, seen))
    })
}
