//! VMs that are there and may not be seen. To a token with rights on a pool alone, that is what becomes of a VM that
//! somebody takes out of the pool.

use talmox_pve::id::VmId;

use super::change::Finding;
use crate::desired::{Desired, DesiredNode};
use crate::observe::Pve;

/// Whether whatever has this number is neither in the list of all there is nor can be read.
pub(super) fn is_hidden(pve: &Pve, vmid: VmId) -> bool {
    pve.guest(vmid).is_none() && !pve.vms.contains_key(&vmid)
}

pub(super) fn message(vmid: VmId, made_by_us: bool) -> String {
    let past = if made_by_us { ", although it was made with this login" } else { "" };
    format!("VM {vmid} is there and may not be seen{past}")
}

/// How it comes back to light.
pub(super) fn hint(desired: &Desired, vmid: VmId) -> String {
    let pool = desired.nodes.iter().find_map(|node| node.pool.as_ref());
    match pool {
        Some(pool) => format!(
            "if somebody took it out of its pool, put it back, as root on a host: pveum pool modify {pool} --vms {vmid}"
        ),
        None => format!("if it is of this cluster, allow it: VM.Audit on /vms/{vmid} is needed"),
    }
}

/// For a node that would get its number, or be made a second time beside it.
pub(super) fn finding(desired: &Desired, node: &DesiredNode, vmid: VmId) -> Finding {
    let back = hint(desired, vmid);
    let hint = format!("{back}\nif it is somebody else's by now, give the node another `vmid:`");
    Finding::error(&node.name, message(vmid, true)).hint(hint)
}
