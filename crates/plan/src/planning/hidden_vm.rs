//! VMs that exist but that the token may not see. A VM that leaves its pool becomes hidden for a token with privileges on the
//! pool only.

use talmox_pve_types::id::VmId;

use crate::desired::{Desired, DesiredNode};
use crate::observed::Pve;
use crate::plan::{Finding, FindingCode};

/// Whether the VM with this vmid is neither listed nor readable.
pub(super) fn is_hidden(pve: &Pve, vmid: VmId) -> bool {
    pve.guest(vmid).is_none() && !pve.vms.contains_key(&vmid)
}

pub(super) fn message(vmid: VmId, made_by_login: bool) -> String {
    let past = if made_by_login { ", although it was created with this login" } else { "" };
    format!("VM {vmid} exists, and the token may not see it{past}")
}

/// Instruction to make the VM visible again.
pub(super) fn hint(desired: &Desired, vmid: VmId) -> String {
    let pool = desired.nodes.iter().find_map(|node| node.pool.as_ref());
    match pool {
        Some(pool) => format!(
            "if it was removed from its pool, put it back, as root on a host: pveum pool modify {pool} --vms {vmid}"
        ),
        None => {
            format!("if it belongs to this cluster, grant VM.Audit on /vms/{vmid} to the token")
        }
    }
}

/// The error about a hidden VM with this vmid. The node would get this vmid, or its VM would be created a second time.
pub(super) fn finding(desired: &Desired, node: &DesiredNode, vmid: VmId) -> Finding {
    let back = hint(desired, vmid);
    let hint =
        format!("{back}\nif it no longer belongs to this cluster, give the node another `vmid:`");
    Finding::error(FindingCode::VmHidden, &node.name, message(vmid, true)).hint(hint)
}
