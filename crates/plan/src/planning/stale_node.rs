//! Nodes that only Kubernetes lists: neither the inventory nor an owned VM has their name.
//!
//! If the machine of such a node is provably gone, its Node object is deleted, with the same consent as a removed node. Otherwise the
//! node is only reported: it may be a machine that joined by hand.

use std::collections::BTreeSet;

use super::builder::Builder;
use super::leaving_node::leave_id;
use super::placed::{Placed, VmPresence};
use super::scope::Part;
use super::unreadable;
use crate::desired::DesiredNode;
use crate::observed::{KubernetesSeen, Pve, Registered, UnknownNode};
use crate::plan::{
    Action, Change, Class, DeleteNode, FieldChange, Finding, FindingCode, Left, Object, StepId,
};

const GONE: &str =
    "it is not ready, nothing answers at its address, and no VM has its name, UUID or provider id";

/// Adds the changes and findings about nodes that only Kubernetes lists.
pub(super) fn plan(builder: &mut Builder<'_>) {
    let observed = builder.observed;
    let KubernetesSeen::Answers(registered) = &observed.kubernetes else { return };
    // A node that exists but is not listed may be listed under another name that a patch set.
    if builder
        .desired
        .nodes
        .iter()
        .any(|node| may_have_other_name(builder, &registered.nodes, node))
    {
        return;
    }
    for name in &registered.nodes {
        let is_orphan = builder.places.removed.iter().any(|(own, _)| own.identity.node == *name);
        if is_orphan || builder.desired.node(name).is_some() {
            continue;
        }
        match reason_to_keep(&observed.pve, registered, name) {
            None => delete(builder, name),
            Some(reason) => builder.findings.push(unknown(name, &reason)),
        }
    }
}

fn may_have_other_name(
    builder: &Builder<'_>,
    listed: &BTreeSet<String>,
    node: &DesiredNode,
) -> bool {
    let is_absent = |placed: &Placed<'_>| {
        placed.node.name == node.name && matches!(placed.state, VmPresence::Absent)
    };
    node.is_talos && !listed.contains(&node.name) && !builder.places.nodes.iter().any(is_absent)
}

/// Why the machine of a node may still exist. None if it is provably gone.
fn reason_to_keep(pve: &Pve, registered: &Registered, name: &str) -> Option<String> {
    if !registered.unready.contains(name) {
        return Some("the node is ready".to_owned());
    }
    let Some(node) = registered.unknown.get(name) else {
        return Some("its addresses were not probed in time".to_owned());
    };
    let UnknownNode { system_uuid, provider_id, addresses, answer } = node;
    if addresses.is_empty() {
        return Some("Kubernetes lists no address of it".to_owned());
    }
    if let Some(answer) = answer {
        return Some(format!("a machine answers at its address ({answer})"));
    }
    let Some(uuid) = system_uuid else {
        return Some("Kubernetes lists no UUID of its machine".to_owned());
    };
    // A VM that cannot be read may be the VM of the node.
    if !pve.unread.is_empty() || unreadable::unreadable(pve).next().is_some() {
        return Some("a VM that cannot be read may be its VM".to_owned());
    }
    let has_uuid = |found: Option<String>| found.is_some_and(|one| one.eq_ignore_ascii_case(uuid));
    let by_uuid = pve
        .vms
        .iter()
        .find(|(_, seen)| seen.config.as_ref().is_ok_and(|config| has_uuid(config.smbios().uuid)));
    // Cloud controllers name a VM as `proxmox://CLUSTER/VMID`.
    let number = provider_id.as_deref().and_then(|id| id.rsplit('/').next());
    let mut guests = pve.resources.guests.iter();
    let by_list = guests.find(|guest| {
        guest.name.as_deref() == Some(name) || number == Some(guest.vmid.to_string().as_str())
    });
    let vmid = by_uuid.map(|(vmid, _)| *vmid).or(by_list.map(|guest| guest.vmid));
    vmid.map(|vmid| format!("VM {vmid} may be its machine"))
}

fn unknown(name: &str, reason: &str) -> Finding {
    let message = "Kubernetes lists it as a node, but neither the inventory nor a VM of the cluster has this name";
    let hint = format!(
        "talmox does not delete it: {reason}. If it is gone for good: kubectl delete node {name}"
    );
    Finding::warning(FindingCode::NodeUnknown, name, message).hint(hint)
}

/// Plans the deletion of a Node object whose machine is gone.
fn delete(builder: &mut Builder<'_>, name: &str) {
    let fields = vec![FieldChange::new("kubernetes", Some("registered".to_owned()), None)];
    let object = Object::Node(name.to_owned());
    let left = if !builder.scope.allows(name, Part::Vms) {
        Some(Left::NotSelected)
    } else if builder.scope.removal.covers(name) {
        None
    } else {
        Some(Left::NeedsConsent)
    };
    if let Some(left) = left {
        builder.changes.push(Change::left(object, Class::Destroy, fields, left).note(GONE));
        return;
    }
    builder.changes.push(Change::planned(object, Class::Destroy, fields).note(GONE));
    let leave = StepId::new(leave_id(name));
    let after: Vec<StepId> =
        Some(leave).filter(|leave| builder.steps.has(leave)).into_iter().collect();
    let action = Action::DeleteNode(DeleteNode {
        node: name.to_owned(),
        only_unready: true,
        deadline: builder.desired.timeouts.task,
    });
    builder.steps.add(format!("node/{name}/delete"), Some(name), after, action);
}
