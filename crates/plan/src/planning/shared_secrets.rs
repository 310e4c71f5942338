//! VMs with the mark of this cluster and the name of another one: the secrets were copied along with an inventory, or the cluster
//! was renamed. The mark does not show which, so these VMs are not changed.

use talmox_pve_types::config::VmConfig;

use super::placed::{ObservedVm, Placements, VmPresence};
use crate::desired::{Desired, TAG};
use crate::ownership::Marker;
use crate::plan::{Finding, FindingCode, OwnVm};

/// Whether the tags or notes of a VM name another cluster.
pub(super) fn is_of_another(desired: &Desired, config: &VmConfig) -> bool {
    let tags = config.tags();
    let is_tagged = tags.contains(TAG) && tags.iter().count() > 1;
    let is_noted =
        Marker::told_cluster(config.description()).is_some_and(|name| name != desired.cluster);
    !tags.contains(&desired.cluster) && (is_tagged || is_noted)
}

/// If some VMs belong to another cluster, so may all that neither tags nor notes assign to this one: moves them.
pub(super) fn part(desired: &Desired, places: &mut Placements<'_>) {
    if !places.shared.is_empty() {
        // A tag policy may reject tags: then the notes count.
        let is_told = |found: &ObservedVm<'_>| {
            let named = Marker::told_cluster(found.config.description());
            found.config.tags().contains(&desired.cluster)
                || (found.marker.are_tags_rejected && named == Some(desired.cluster.as_str()))
        };
        places.shared.extend(places.removed.extract_if(.., |(_, found)| !is_told(found)));
    }
}

/// The error that keeps new nodes from joining the other cluster with the same secrets.
pub(super) fn of_another(desired: &Desired, places: &Placements<'_>) -> Option<Finding> {
    let (first, _) = places.shared.first()?;
    let message = format!(
        "{}: two clusters with the same secrets would join each other, so nothing is created",
        told(desired, &places.shared)
    );
    let hint = format!(
        "give {0} secrets of its own: move its secrets file away, then run `talmox secrets init {0}`; or, if it is the \
         same cluster under another name, restore the names of it and its nodes, or set the tags on the host of each VM: {1}",
        desired.cluster,
        retag(desired, first)
    );
    Some(Finding::error(FindingCode::SecretsShared, &desired.cluster, message).hint(hint))
}

/// Findings about VMs that `destroy` keeps. If the secrets are to be deleted, they are errors: the kept VMs need them.
pub(super) fn spare(desired: &Desired, places: &Placements<'_>, secrets: bool) -> Vec<Finding> {
    let mut findings = vec![];
    if let Some((first, _)) = places.shared.first() {
        let message = format!("{}: they are kept", told(desired, &places.shared));
        let hint = format!("to destroy them with {}: {}", desired.cluster, retag(desired, first));
        let finding = if secrets { Finding::error } else { Finding::warning };
        findings.push(finding(FindingCode::SecretsShared, &desired.cluster, message).hint(hint));
    }
    for placed in &places.nodes {
        let VmPresence::Owned(found) = &placed.state else { continue };
        if is_of_another(desired, found.config) {
            let tags = found.config.tags();
            let message = format!(
                "its VM {} belongs to another cluster by tags or notes ({tags})",
                placed.own.vm.vmid
            );
            let hint = format!(
                "check whether it is in use under another name; to destroy it, on its host: {}",
                retag(desired, &placed.own)
            );
            findings.push(
                Finding::error(FindingCode::VmClusterUnclear, &placed.node.name, message)
                    .hint(hint),
            );
        }
    }
    findings
}

/// Owned VMs that neither tags nor notes assign to this cluster. Marker and UUID are the same for a copy of the inventory with
/// its secrets, so only the cluster's name shows which of the two a VM belongs to: without it nothing is destroyed.
pub(super) fn unnamed(desired: &Desired, places: &Placements<'_>) -> Vec<Finding> {
    let placed = places.nodes.iter().filter_map(|placed| match &placed.state {
        VmPresence::Owned(found) => Some((&placed.own, found)),
        _ => None,
    });
    let removed = places.removed.iter().map(|(own, found)| (own, found));
    let unnamed = placed.chain(removed).filter(|(_, found)| {
        let config = found.config;
        !config.tags().contains(&desired.cluster)
            && Marker::told_cluster(config.description()).is_none()
    });
    let finding = |(own, found): (&OwnVm, &ObservedVm<'_>)| {
        let (vmid, host) = (own.vm.vmid, &own.vm.node);
        let message = format!(
            "VM {vmid} on {host} has its marker and UUID, but neither tags ({}) nor notes name the cluster {}",
            found.config.tags(),
            desired.cluster
        );
        let hint = format!(
            "check whether this inventory is a copy of one that is in use; to destroy the VM, on its host: {}",
            retag(desired, own)
        );
        Finding::error(FindingCode::VmClusterUnclear, &own.identity.node, message).hint(hint)
    };
    unnamed.map(finding).collect()
}

fn told(desired: &Desired, shared: &[(OwnVm, ObservedVm<'_>)]) -> String {
    let vms: Vec<String> = shared
        .iter()
        .map(|(own, found)| {
            format!("{} ({}, {})", own.vm.vmid, own.identity.node, found.config.tags())
        })
        .collect();
    format!(
        "VMs with the secrets of {} belong to another cluster, by their tags or notes: {}",
        desired.cluster,
        vms.join(", ")
    )
}

/// The command that assigns a VM to this cluster.
fn retag(desired: &Desired, own: &OwnVm) -> String {
    format!("qm set {} --tags '{TAG};{}'", own.vm.vmid, desired.cluster)
}
