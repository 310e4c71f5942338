//! VMs whose configs cannot be read, mostly on hosts that are down. Only the config shows whether a VM is an owned VM, so
//! each unreadable VM may be one. While a VM is unreadable, talmox does not create a VM that may be a duplicate, and does not
//! bootstrap etcd.

use std::collections::BTreeSet;

use talmox_pve_types::id::{NodeName, VmId};

use super::builder::Builder;
use super::placed::VmPresence;
use crate::desired::{Desired, DesiredNode};
use crate::observed::{IdSeen, KubernetesSeen, Observed, Pve, Unobserved, Unread};
use crate::plan::{Finding, FindingCode};

/// An unreadable VM with a vmid, name or tags of this cluster.
#[derive(Clone, Copy, Debug)]
pub(super) struct UnreadableVm<'a> {
    vmid: VmId,
    host: &'a NodeName,
    reason: &'a Unobserved,
    /// The name of the VM in the list of Proxmox. None if the list has no name, as for VMs on a host that is down.
    name: Option<&'a str>,
}

impl UnreadableVm<'_> {
    pub(super) fn message(&self) -> String {
        let Self { vmid, host, reason, .. } = self;
        format!("it may be VM {vmid} on {host}, which cannot be read: {reason}")
    }

    pub(super) fn hint(&self, pve: &Pve) -> String {
        hint(self.vmid, self.host, pve)
    }
}

/// Instructions for an unreadable VM. They do not delete the VM, because it may hold the only copy of the data of a node.
pub(super) fn hint(vmid: VmId, host: &NodeName, pve: &Pve) -> String {
    if pve.host(host).is_some_and(|seen| seen.status != "online") {
        format!(
            "bring {host} up, then run the same command; only if {host} is gone for good, remove it from the Proxmox \
             cluster. `pvecm delnode {host}` can leave its VMs listed: VM {vmid} blocks this cluster until \
             `pvesh get /cluster/resources --type vm` does not list it"
        )
    } else {
        format!(
            "find out why Proxmox cannot read it (on {host}: qm config {vmid}), then run the same command"
        )
    }
}

/// The unreadable VMs with a vmid, name or tags of this cluster.
pub(super) fn unreadable(pve: &Pve) -> impl Iterator<Item = UnreadableVm<'_>> {
    pve.vms.iter().filter_map(|(vmid, seen)| {
        let reason = seen.config.as_ref().err().filter(|reason| reason.may_exist())?;
        let guest = pve.guest(*vmid);
        let name = guest.and_then(|guest| guest.name.as_deref());
        let is_template = guest.is_some_and(|guest| guest.template);
        // A VM that a task of this token is creating has no config yet.
        let is_being_made =
            matches!(pve.ids.get(vmid), Some(IdSeen::Taken { making: Some(_), .. }));
        (!is_template && !is_being_made).then_some(UnreadableVm {
            vmid: *vmid,
            host: &seen.host,
            reason,
            name,
        })
    })
}

/// The unreadable VM that may be the VM of a node without an owned VM. A VM with the name of another such node belongs to
/// that node. Any other unreadable VM may belong to this node, because names can be edited in the inventory and in Proxmox.
/// The VM with the vmid of this node is handled by the check of that vmid.
pub(super) fn of_node<'a>(
    desired: &Desired,
    node: &DesiredNode,
    pve: &'a Pve,
    owned: &BTreeSet<String>,
) -> Option<UnreadableVm<'a>> {
    let is_of_another =
        |name: &str| name != node.name && desired.node(name).is_some() && !owned.contains(name);
    let candidates: Vec<UnreadableVm<'a>> = unreadable(pve)
        .filter(|one| node.vmid != Some(one.vmid))
        .filter(|one| !one.name.is_some_and(is_of_another))
        .collect();
    let named = candidates.iter().find(|one| one.name == Some(node.name.as_str()));
    named.or(candidates.first()).copied()
}

/// Blocks the creation of nodes whose VM may be an unreadable VM without a sign of the cluster. That VM may have got another
/// name and other tags, or `cluster_name` was edited.
pub(super) fn block(builder: &mut Builder<'_>) {
    let (desired, observed) = (builder.desired, builder.observed);
    let absent = |state: &VmPresence<'_>| matches!(state, VmPresence::Absent);
    for placed in builder.places.nodes.iter_mut().filter(|placed| absent(&placed.state)) {
        if !may_have_vm(observed, &placed.node.name) {
            continue;
        }
        let Some((what, hint)) = unread_text_with_hint(desired, &observed.pve) else { return };
        placed.state = VmPresence::Blocked;
        let message = format!(
            "its VM is missing, and may be one that cannot be read, under another name: {what}"
        );
        builder
            .findings
            .push(Finding::error(FindingCode::VmUnreadable, &placed.node.name, message).hint(hint));
    }
}

/// Whether a node may have a VM that was not found. A node that Kubernetes lists has a VM. A node that Kubernetes does not list
/// has never joined.
pub(super) fn may_have_vm(observed: &Observed, node: &str) -> bool {
    match &observed.kubernetes {
        KubernetesSeen::Answers(registered) => registered.nodes.contains(node),
        KubernetesSeen::NotAsked | KubernetesSeen::Silent(_) => !observed.are_secrets_new,
    }
}

/// The error that prevents the bootstrap of etcd: an unreadable VM may be a control plane with etcd data. Its node may be in
/// the inventory, or may have been removed from the inventory.
pub(super) fn keeps_from_bootstrap(builder: &Builder<'_>) -> Option<Finding> {
    let (desired, observed) = (builder.desired, builder.observed);
    let pve = &observed.pve;
    let signed = unreadable(pve).next();
    let (what, hint) = if let Some(one) = signed {
        let UnreadableVm { vmid, host, reason, .. } = one;
        (format!("VM {vmid} on {host} ({reason})"), one.hint(pve))
    } else if observed.are_secrets_new || matches!(observed.kubernetes, KubernetesSeen::Answers(_))
    {
        return None;
    } else {
        unread_text_with_hint(desired, pve)?
    };
    let message = format!(
        "etcd is not bootstrapped: a VM that cannot be read may be a control plane with etcd data: {what}"
    );
    Some(Finding::error(FindingCode::VmUnreadable, &desired.cluster, message).hint(hint))
}

/// Description of the unreadable VMs that have no vmid, name or tags of the cluster, and a hint. None if no such VM exists.
fn unread_text_with_hint(desired: &Desired, pve: &Pve) -> Option<(String, String)> {
    let (vmid, Unread { host, .. }) = pve.unread.first_key_value()?;
    let pool = desired.nodes.iter().find_map(|node| node.pool.as_ref());
    let narrow = match pool {
        Some(pool) => format!(" with rights on /pool/{pool} only"),
        None => String::new(),
    };
    let hint = format!(
        "{}\nor use a token that cannot see the VMs of others (`talmox init --role` prints the commands for one{narrow})",
        hint(*vmid, host, pve)
    );
    Some((unread_text(pve.unread.iter())?, hint))
}

/// Text with the first VM and the number of further VMs. None if there is no VM.
pub(super) fn unread_text<'a>(
    mut unread: impl Iterator<Item = (&'a VmId, &'a Unread)>,
) -> Option<String> {
    let (vmid, Unread { host, reason }) = unread.next()?;
    let more = match unread.count() {
        0 => String::new(),
        more => format!(", or {more} more"),
    };
    Some(format!("VM {vmid} on {host} ({reason}){more}"))
}
