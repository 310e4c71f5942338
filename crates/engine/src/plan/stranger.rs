//! VMs that have the number or the name of a node and do not prove to be its VM. They are told about,
//! and not touched.

use std::collections::BTreeMap;

use talmox_pve::id::VmId;

use super::change::Finding;
use super::place::{Places, State, places, unread_vm};
use crate::desired::{Desired, DesiredNode};
use crate::observe::{Pve, VmSeen};
use crate::ownership::Owner;

/// A VM that is there instead.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Stranger {
    pub(super) vmid: VmId,
    host: String,
    name: Option<String>,
    /// Why it is not ours.
    pub(super) reason: String,
}

/// For each node without a VM of ours, what is there in its place or may be its VM, in words.
pub fn strangers(desired: &Desired, pve: &Pve) -> BTreeMap<String, String> {
    let places = places(desired, pve);
    let told = missing(desired, &places).into_iter().filter_map(|node| {
        let stranger = find(desired, node, pve).map(|stranger| stranger.to_string());
        Some((node.name.clone(), stranger.or_else(|| unread_vm(desired, node, pve))?))
    });
    told.collect()
}

/// What is told of these nodes.
pub(super) fn warnings<'a>(
    desired: &Desired,
    pve: &Pve,
    nodes: impl IntoIterator<Item = &'a DesiredNode>,
) -> Vec<Finding> {
    let told =
        nodes.into_iter().filter_map(|node| Some(find(desired, node, pve)?.finding(&node.name)));
    told.collect()
}

impl Stranger {
    pub(super) fn finding(&self, node: &str) -> Finding {
        let hint = "talmox never touches it; if it is the VM of this node, restore talmox's line in its notes; if it is not, give the \
                    node another name or `vmid:`";
        Finding::warning(node, self.to_string()).hint(hint)
    }
}

/// Nodes that have no VM of ours, and that none is being made for.
pub(super) fn missing<'a>(desired: &'a Desired, places: &Places<'_>) -> Vec<&'a DesiredNode> {
    let has_vm = |node: &&DesiredNode| {
        let mut own = places.nodes.iter().filter(|placed| placed.node.name == node.name);
        own.any(|placed| matches!(placed.state, State::Ours(_) | State::BeingMade(_)))
    };
    desired.nodes.iter().filter(|node| !has_vm(node)).collect()
}

/// What has the number of a node, or its name, or its UUID.
pub(super) fn find(desired: &Desired, node: &DesiredNode, pve: &Pve) -> Option<Stranger> {
    let identity = desired.identity_of(&node.name);
    let judged = |(vmid, seen): (&VmId, &VmSeen)| {
        let config = seen.config.as_ref().ok()?;
        let Owner::Other { reason } = identity.judge(config) else { return None };
        let name = config.name().map(str::to_owned);
        Some(Stranger { vmid: *vmid, host: seen.host.to_string(), name, reason })
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

impl std::fmt::Display for Stranger {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { vmid, host, name, reason } = self;
        let name = name.as_deref().unwrap_or("without a name");
        write!(f, "VM {vmid} ({name}) on {host} is there in its place, and is not ours: {reason}")
    }
}
