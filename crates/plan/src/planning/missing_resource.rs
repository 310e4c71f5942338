//! Hosts and storages that do not exist, although the inventory names them for existing VMs. The existing VMs keep working,
//! but no new VM can be created there.

use std::collections::BTreeSet;

use talmox_pve_types::id::{NodeName, StorageId};

use super::builder::Builder;
use super::placed::{ObservedVm, Placed, VmPresence};
use crate::plan::{Finding, FindingCode};

pub(super) fn check(builder: &mut Builder<'_>) {
    let mut findings = vec![];
    // For new VMs, the preflight checks report these problems as errors.
    let new = builder.places.nodes.iter().filter(|one| matches!(one.state, VmPresence::Absent));
    let new: BTreeSet<&NodeName> = new.map(|placed| &placed.own.vm.node).collect();
    hosts(builder, &new, &mut findings);
    let mut seen = BTreeSet::new();
    for placed in &builder.places.nodes {
        let VmPresence::Owned(found) = &placed.state else { continue };
        let host = &found.seen.host;
        for (storage, setting) in storages(builder, placed, found) {
            if !new.contains(host) && seen.insert((host.clone(), storage.clone())) {
                findings.extend(missing(builder, host, storage, setting));
            }
        }
    }
    builder.findings.extend(findings);
}

/// Findings about hosts that do not exist. Empty if the token may not see any host.
fn hosts(builder: &Builder<'_>, new: &BTreeSet<&NodeName>, findings: &mut Vec<Finding>) {
    let pve = &builder.observed.pve;
    let names: Vec<&str> = pve.resources.hosts.iter().map(|host| host.node.as_str()).collect();
    let own = builder.desired.nodes.iter().filter_map(|node| node.host.as_ref());
    let named: BTreeSet<&NodeName> = builder.desired.hosts.iter().chain(own).collect();
    for host in named {
        if pve.host(host).is_none() && !names.is_empty() && !new.contains(host) {
            let message = format!("Proxmox has no such host; it has: {}", names.join(", "));
            let hint = "correct `node:`, `hosts:` or `host:`; existing VMs stay where they are";
            findings.push(
                Finding::warning(FindingCode::HostMissing, host.as_str(), message).hint(hint),
            );
        }
    }
}

/// Storages on which the VM of a node would be created again, without the storages that the VM uses now.
fn storages<'a>(
    builder: &'a Builder<'_>,
    placed: &'a Placed<'_>,
    found: &ObservedVm<'_>,
) -> Vec<(&'a StorageId, &'static str)> {
    let disks = placed.node.vm.disks.iter().filter(|disk| {
        let drive = found.config.drive(&disk.slot);
        drive.is_none_or(|drive| drive.storage() != Some(&disk.storage))
    });
    let mut all: Vec<_> = disks.map(|disk| (&disk.storage, "datastore")).collect();
    if placed.node.image.is_some() {
        all.push((&builder.desired.image_storage, "image_datastore"));
    }
    all
}

fn missing(
    builder: &Builder<'_>,
    host: &NodeName,
    storage: &StorageId,
    setting: &str,
) -> Option<Finding> {
    let pve = &builder.observed.pve;
    let subject = format!("{host}/{storage}");
    if let Some(seen) = pve.storage(host, storage) {
        let message = format!("the storage is {}: no VM can be created with it", seen.status);
        let finding = Finding::warning(FindingCode::StorageUnavailable, &subject, message);
        let is_off = seen.status != "available" && pve.is_online(host);
        return is_off.then(|| finding.hint("run pvesm status on the host to see why"));
    }
    // Proxmox lists a storage only to tokens with Datastore.Audit, not to tokens that may only allocate space.
    let may = |right: &str| pve.permissions.allows(&format!("/storage/{storage}"), right);
    if may("Datastore.AllocateSpace") && !may("Datastore.Audit") {
        return None;
    }
    let message =
        "storage not found, or the token lacks Datastore.Audit on it: no VM can be created with it";
    let hint = format!("correct `{setting}:`, or grant Datastore.Audit");
    Some(Finding::warning(FindingCode::StorageMissing, &subject, message).hint(hint))
}
