//! Foreign VMs with the vmid, name or UUID of a node. talmox reports them, but never changes them.

use talmox_pve_types::id::VmId;

use super::placed::{Placements, VmPresence};
use crate::desired::{Desired, DesiredNode};
use crate::observed::{Pve, VmSeen};
use crate::ownership::Owner;
use crate::plan::{Finding, FindingCode};

/// A foreign VM with the vmid, name or UUID of a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ForeignVm {
    pub(super) vmid: VmId,
    host: String,
    name: Option<String>,
    /// Why the VM is not an owned VM.
    pub(super) reason: String,
}

/// Warnings about foreign VMs with the vmid, name or UUID of these nodes.
pub(super) fn warnings<'a>(
    desired: &Desired,
    pve: &Pve,
    nodes: impl IntoIterator<Item = &'a DesiredNode>,
) -> Vec<Finding> {
    let findings =
        nodes.into_iter().filter_map(|node| Some(find(desired, node, pve)?.finding(&node.name)));
    findings.collect()
}

impl ForeignVm {
    pub(super) fn finding(&self, node: &str) -> Finding {
        let hint = "if it is the VM of this node, restore talmox's line in its notes; if it is not, give the node another name or \
                    `vmid:`; talmox never changes it";
        Finding::warning(FindingCode::VmForeign, node, self.to_string()).hint(hint)
    }
}

/// Nodes that have no owned VM and for which no task is creating a VM.
pub(super) fn missing<'a>(desired: &'a Desired, places: &Placements<'_>) -> Vec<&'a DesiredNode> {
    let has_vm = |node: &&DesiredNode| {
        let mut own = places.nodes.iter().filter(|placed| placed.node.name == node.name);
        own.any(|placed| matches!(placed.state, VmPresence::Owned(_) | VmPresence::BeingMade(_)))
    };
    desired.nodes.iter().filter(|node| !has_vm(node)).collect()
}

/// The foreign VM with the vmid of a node. If there is none, the one with the name, and then the one with the UUID of the
/// node.
pub(super) fn find(desired: &Desired, node: &DesiredNode, pve: &Pve) -> Option<ForeignVm> {
    let identity = desired.identity_of(&node.name);
    let judged = |(vmid, seen): (&VmId, &VmSeen)| {
        let config = seen.config.as_ref().ok()?;
        let Owner::Foreign { reason } = identity.judge(config) else { return None };
        let name = config.name().map(str::to_owned);
        Some(ForeignVm { vmid: *vmid, host: seen.host.to_string(), name, reason })
    };
    let is_named = |seen: &VmSeen| {
        let config = seen.config.as_ref().ok();
        config.is_some_and(|it| it.name() == Some(&node.name) && !it.is_template())
    };
    let by_number = node.vmid.and_then(|vmid| pve.vms.get_key_value(&vmid));
    let by_name = || pve.vms.iter().find(|(_, seen)| is_named(seen));
    let uuid = node.identity.uuid.to_string();
    let has_uuid = |seen: &VmSeen| {
        seen.config.as_ref().is_ok_and(|config| config.smbios().uuid.as_ref() == Some(&uuid))
    };
    let by_uuid = || pve.vms.iter().find(|(_, seen)| has_uuid(seen));
    by_number.or_else(by_name).or_else(by_uuid).and_then(judged)
}

impl std::fmt::Display for ForeignVm {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { vmid, host, name, reason } = self;
        let name = name.as_deref().unwrap_or("without a name");
        write!(
            f,
            "VM {vmid} ({name}) on {host} has the vmid, name or UUID of this node, but talmox does not manage it: {reason}"
        )
    }
}
