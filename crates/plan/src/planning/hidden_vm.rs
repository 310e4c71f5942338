//! VMs that exist but that the token may not see. A VM that leaves its pool becomes hidden for a token with privileges on the
//! pool only.

use talmox_pve_types::id::VmId;

use super::builder::Builder;
use super::placed::VmPresence;
use super::unreadable::may_have_vm;
use crate::desired::{Desired, DesiredNode};
use crate::observed::{IdSeen, Pve};
use crate::plan::{Finding, FindingCode};

/// Whether the VM with this vmid is neither listed nor readable.
pub(super) fn is_hidden(pve: &Pve, vmid: VmId) -> bool {
    pve.guest(vmid).is_none() && !pve.vms.contains_key(&vmid)
}

/// The hidden VMs that this login created. A VM with the lock of an interrupted create is empty, and is not among them.
pub(super) fn left_by_login(pve: &Pve) -> impl Iterator<Item = VmId> {
    let left = pve.ids.iter().filter(move |(vmid, seen)| {
        let is_left =
            matches!(seen, IdSeen::Taken { making: None, made_by_login: true, lock: None });
        is_left && is_hidden(pve, **vmid)
    });
    left.map(|(vmid, _)| *vmid)
}

/// Blocks the creation of nodes whose VM may be a hidden VM with another vmid than the node would get. An earlier release
/// chose vmids in another way, and `vmid:` may have been edited.
pub(super) fn block(builder: &mut Builder<'_>) {
    let (desired, observed) = (builder.desired, builder.observed);
    let Some(vmid) = left_by_login(&observed.pve).next() else { return };
    let absent = |state: &VmPresence<'_>| matches!(state, VmPresence::Absent);
    for placed in builder.places.nodes.iter_mut().filter(|placed| absent(&placed.state)) {
        if !may_have_vm(observed, &placed.node.name) {
            continue;
        }
        placed.state = VmPresence::Blocked;
        let message =
            format!("its VM is missing, and may be a hidden one: {}", message(vmid, true));
        let hint = format!(
            "{}\nif it does not belong to this cluster, grant VM.Audit on /vms/{vmid} to the token, so that talmox can read its \
             notes",
            hint(desired, vmid)
        );
        let finding = Finding::error(FindingCode::VmHidden, &placed.node.name, message);
        builder.findings.push(finding.hint(hint));
    }
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
