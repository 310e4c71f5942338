//! VMs that exist and that the token may not see. For a token with rights on a pool only, a VM that leaves the pool becomes
//! hidden.

use talmox_pve_types::id::VmId;

use crate::desired::{Desired, DesiredNode};
use crate::observed::Pve;
use crate::plan::Finding;

/// Whether the VM with this id is neither listed nor readable.
pub(super) fn is_hidden(pve: &Pve, vmid: VmId) -> bool {
    pve.guest(vmid).is_none() && !pve.vms.contains_key(&vmid)
}

pub(super) fn message(vmid: VmId, made_by_login: bool) -> String {
    let past = if made_by_login { ", although it was made with this login" } else { "" };
    format!("VM {vmid} is there and may not be seen{past}")
}

/// How to make it visible again.
pub(super) fn hint(desired: &Desired, vmid: VmId) -> String {
    let pool = desired.nodes.iter().find_map(|node| node.pool.as_ref());
    match pool {
        Some(pool) => format!(
            "if somebody took it out of its pool, put it back, as root on a host: pveum pool modify {pool} --vms {vmid}"
        ),
        None => format!("if it is of this cluster, allow it: VM.Audit on /vms/{vmid} is needed"),
    }
}

/// The finding for a node whose VM would get this id, or would be created a second time.
pub(super) fn finding(desired: &Desired, node: &DesiredNode, vmid: VmId) -> Finding {
    let back = hint(desired, vmid);
    let hint = format!("{back}\nif it is somebody else's by now, give the node another `vmid:`");
    Finding::error(&node.name, message(vmid, true)).hint(hint)
}
