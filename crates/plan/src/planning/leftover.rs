//! VMs that may remain after `destroy`: VMs that cannot be seen or read, and foreign VMs with a sign of the cluster.
//!
//! `destroy` keeps these VMs. If the secrets are deleted too, each of these VMs is an error, because such a machine cannot be
//! accessed without the secrets.

use std::collections::BTreeSet;

use talmox_pve_types::id::VmId;

use super::placed::{Placed, Placements, VmPresence};
use super::placement::stuck;
use super::{foreign_vm, hidden_vm, node_drift, unreadable};
use crate::desired::{Desired, DesiredNode};
use crate::observed::{IdSeen, Observed, TalosSeen, VmSeen};
use crate::ownership::{Marker, Owner};
use crate::plan::{Finding, FindingCode, Severity};

/// Hint for a VM with the marker of this cluster and another UUID. Such a VM is a copy of a VM of this cluster.
const NOT_TOUCHED: &str =
    "remove talmox's line from its notes if it is a copy for another use; talmox never changes it";

/// Hint for a foreign VM with the UUID of a node. talmox derives the UUID from the secrets and the name of the node, so the
/// VM belongs to this inventory, or to a copy of this inventory.
const RESTORE_MARKER: &str = "restore talmox's line in its notes if it is the VM of this node; if this inventory is a copy of \
                              another one, give it secrets of its own; talmox never changes the VM";

pub(super) struct Leftovers<'a> {
    pub(super) desired: &'a Desired,
    pub(super) observed: &'a Observed,
    pub(super) places: &'a Placements<'a>,
    /// Whether `destroy` also deletes the secrets.
    pub(super) secrets: bool,
}

impl Leftovers<'_> {
    pub(super) fn all(&self) -> Vec<Finding> {
        let missing = foreign_vm::missing(self.desired, self.places);
        let mut findings = self.foreign(&missing);
        findings.extend(self.unreadable());
        findings.extend(self.unread().filter(|_| !missing.is_empty()));
        let without_trace = missing.iter().filter(|node| !self.has_trace(node));
        findings.extend(without_trace.filter_map(|node| self.answering(node)));
        findings.extend(self.hidden());
        findings
    }

    fn finding(&self, code: FindingCode, subject: &str, message: String, hint: &str) -> Finding {
        let finding = if self.secrets {
            Finding::error(code, subject, message)
        } else {
            Finding::warning(code, subject, message)
        };
        finding.hint(hint)
    }

    /// Findings about foreign VMs with the vmid, name or UUID of a node, and about copies of owned VMs.
    fn foreign(&self, missing: &[&DesiredNode]) -> Vec<Finding> {
        let vms = &self.observed.pve.vms;
        let mut reported: BTreeSet<VmId> = BTreeSet::new();
        let mut findings = vec![];
        for node in missing {
            let Some(foreign) = foreign_vm::find(self.desired, node, &self.observed.pve) else {
                continue;
            };
            let finding = foreign.finding(&node.name);
            let has_sign = vms.get(&foreign.vmid).is_some_and(|seen| self.sign(seen).is_some());
            reported.insert(foreign.vmid);
            let has_uuid = vms.get(&foreign.vmid).is_some_and(|seen| self.has_uuid(seen));
            findings.push(match finding.hint {
                _ if has_uuid => {
                    Finding::error(FindingCode::VmUnproven, &finding.subject, finding.message)
                        .hint(RESTORE_MARKER)
                }
                Some(hint) if has_sign => {
                    self.finding(FindingCode::VmUnproven, &finding.subject, finding.message, &hint)
                }
                _ => finding,
            });
        }
        for (vmid, seen) in vms.iter().filter(|(vmid, _)| !reported.contains(vmid)) {
            let Some((node, reason)) = self.sign(seen) else { continue };
            let message = format!(
                "VM {vmid} on {} has its marker or UUID, and is not an owned VM: {reason}",
                seen.host
            );
            let finding = if self.has_uuid(seen) {
                Finding::error(FindingCode::VmUnproven, &node, message).hint(RESTORE_MARKER)
            } else {
                self.finding(FindingCode::VmUnproven, &node, message, NOT_TOUCHED)
            };
            findings.push(finding);
        }
        findings
    }

    /// Whether a VM has the SMBIOS UUID of a node. If the marker of the VM does not match, the inventory may be a copy of one
    /// that is in use. Then `destroy` deletes nothing.
    fn has_uuid(&self, seen: &VmSeen) -> bool {
        let uuid = seen.config.as_ref().ok().and_then(|config| config.smbios().uuid);
        let is_of = |node: &DesiredNode| uuid == Some(node.identity.uuid.to_string());
        uuid.is_some() && self.desired.nodes.iter().any(is_of)
    }

    /// Whether a foreign VM has the marker or the UUID of this node.
    fn has_trace(&self, node: &DesiredNode) -> bool {
        let mut signs = self.observed.pve.vms.values().filter_map(|seen| self.sign(seen));
        signs.any(|(name, _)| name == node.name)
    }

    /// The node whose marker or UUID a foreign VM has, and the reason why the VM is not an owned VM. None for an owned VM,
    /// and for a VM with neither marker nor UUID of this cluster.
    fn sign(&self, seen: &VmSeen) -> Option<(String, String)> {
        let config = seen.config.as_ref().ok().filter(|config| !config.is_template())?;
        let marker = Marker::find(config.description());
        let marked = marker.filter(|marker| marker.cluster == self.desired.mark);
        let uuid = config.smbios().uuid;
        let has_uuid = |node: &&DesiredNode| uuid == Some(node.identity.uuid.to_string());
        let named = || self.desired.nodes.iter().find(has_uuid).map(|node| node.name.clone());
        let (node, identity) = if let Some(marker) = marked {
            let identity = self.desired.identity_of_vm(&marker, config);
            (marker.node, identity)
        } else {
            let node = named()?;
            let identity = self.desired.identity_of(&node);
            (node, identity)
        };
        match identity.judge(config) {
            Owner::Owned(_) => None,
            Owner::Foreign { reason } => Some((node, reason)),
        }
    }

    /// Errors about unreadable VMs with a vmid, name or tags of the cluster. `destroy` deletes nothing until they can be
    /// read, because a partly deleted cluster neither runs nor can be created again.
    fn unreadable(&self) -> Vec<Finding> {
        let pve = &self.observed.pve;
        let is_template = |vmid: VmId| pve.guest(vmid).is_some_and(|guest| guest.template);
        let unread = pve.vms.iter().filter(|(vmid, _)| !is_template(**vmid));
        let findings = unread.filter_map(|(vmid, seen)| {
            let reason = seen.config.as_ref().err().filter(|reason| reason.may_exist())?;
            let message =
                format!("VM {vmid} may belong to this cluster, and cannot be read: {reason}");
            let hint = unreadable::hint(*vmid, &seen.host, pve);
            Some(Finding::error(FindingCode::VmUnreadable, seen.host.as_str(), message).hint(hint))
        });
        findings.collect()
    }

    /// Finding about unreadable VMs that have no vmid, name or tags of the cluster. None if no such VM exists.
    fn unread(&self) -> Option<Finding> {
        let what = unreadable::unread_text(self.observed.pve.unread.iter())?;
        let message = format!(
            "the config of a VM cannot be read, so it may be a renamed VM of this cluster: {what}"
        );
        let hint = "bring the host up, then run the same command";
        Some(self.finding(FindingCode::VmUnreadable, &self.desired.cluster, message, hint))
    }

    /// Finding about a node that answers although its VM is not visible.
    fn answering(&self, node: &DesiredNode) -> Option<Finding> {
        let Some(TalosSeen::OwnNode(found)) = self.observed.nodes.get(&node.name) else {
            return None;
        };
        // Another node of the cluster, with a known VM, may answer at this address.
        let name = node_drift::hostname(self.desired, found);
        let is_known = |name: &String| {
            let own = |placed: &&Placed<'_>| placed.node.name == *name;
            let placed = self.places.nodes.iter().find(own);
            placed.is_some_and(|placed| matches!(placed.state, VmPresence::Owned(_)))
                || self.places.removed.iter().any(|(own, _)| own.identity.node == *name)
        };
        if name.as_ref().is_some_and(is_known) {
            return None;
        }
        let at = found.address.map(|address| format!(" at {address}")).unwrap_or_default();
        let message = format!("a node of this cluster answers{at}, and its VM is not visible");
        let hint =
            "find the VM, and restore its pool and its marker: one of them may have been removed";
        Some(self.finding(FindingCode::NodeWithoutVm, &node.name, message, hint))
    }

    /// Findings about vmids of the cluster that are used by a hidden VM, or by a locked VM without a marker of this cluster.
    fn hidden(&self) -> Vec<Finding> {
        let pve = &self.observed.pve;
        let node_of = |vmid: VmId| self.desired.nodes.iter().find(|node| node.vmid == Some(vmid));
        let findings = pve.ids.iter().filter_map(|(vmid, seen)| {
            let IdSeen::Taken { making: None, made_by_login, lock } = seen else { return None };
            let node = node_of(*vmid);
            let subject = node.map_or("proxmox", |node| node.name.as_str());
            match lock {
                // The VM does not hold data yet, so the secrets are not needed for it.
                Some(lock) if *made_by_login && !self.is_owned(*vmid) => {
                    Some(Finding { severity: Severity::Warning, ..stuck(subject, *vmid, lock) })
                }
                None if hidden_vm::is_hidden(pve, *vmid) && (*made_by_login || node.is_some()) => {
                    let hint = hidden_vm::hint(self.desired, *vmid);
                    let message = hidden_vm::message(*vmid, *made_by_login);
                    Some(self.finding(FindingCode::VmHidden, subject, message, &hint))
                }
                _ => None,
            }
        });
        findings.collect()
    }

    fn is_owned(&self, vmid: VmId) -> bool {
        let config = self.observed.pve.vms.get(&vmid).and_then(|seen| seen.config.as_ref().ok());
        let marker = config.and_then(|config| Marker::find(config.description()));
        marker.is_some_and(|marker| marker.cluster == self.desired.mark)
    }
}
