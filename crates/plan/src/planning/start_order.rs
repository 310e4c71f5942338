//! Start order of VMs (`startup:`). It affects the other VMs of a host, so Proxmox lets only tokens with the privilege
//! Sys.Modify on `/` set it.

use super::builder::Builder;
use super::placed::Placed;
use crate::plan::{Finding, FindingCode};

/// Whether the token may set the start order of VMs.
pub(super) fn is_allowed(builder: &Builder<'_>) -> bool {
    builder.observed.pve.permissions.allows("/", "Sys.Modify") || builder.desired.login.is_root()
}

/// The warning about a start order that the token may not set.
pub(super) fn rejected(placed: &Placed<'_>, startup: &str) -> Finding {
    let vm = &placed.own.vm;
    let message =
        format!("the start order of VM {} is not set: the token lacks Sys.Modify on /", vm.vmid);
    let hint = format!(
        "everything else works without it; to set it, as root on {}: qm set {} --startup {startup}",
        vm.node, vm.vmid
    );
    Finding::warning(FindingCode::StartOrderRejected, &placed.node.name, message).hint(hint)
}
