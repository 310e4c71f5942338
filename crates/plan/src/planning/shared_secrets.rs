//! VMs with the mark of this cluster and the name of another cluster. Either the secrets were copied together with an
//! inventory, or the cluster was renamed. The mark does not show which of the two happened, so talmox does not change these
//! VMs.

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
        Marker::named_cluster(config.description()).is_some_and(|name| name != desired.cluster);
    !tags.contains(&desired.cluster) && (is_tagged || is_noted)
}

/// If some VMs belong to another cluster, also moves the orphans to `shared` that neither tags nor notes assign to this
/// cluster.
pub(super) fn part(desired: &Desired, places: &mut Placements<'_>) {
    if !places.shared.is_empty() {
        // If the tag policy of the datacenter rejected the tags, the notes count instead.
        let is_told = |found: &ObservedVm<'_>| {
            let named = Marker::named_cluster(found.config.description());
            found.config.tags().contains(&desired.cluster)
                || (found.marker.are_tags_rejected && named == Some(desired.cluster.as_str()))
        };
        places.shared.extend(places.removed.extract_if(.., |(_, found)| !is_told(found)));
    }
}

/// The error about VMs of another cluster with the same secrets. It keeps new nodes from joining that cluster.
pub(super) fn of_another(desired: &Desired, places: &Placements<'_>) -> Option<Finding> {
    let (first, _) = places.shared.first()?;
    let message = format!(
        "{}: two clusters with the same secrets would join each other, so nothing is created",
        shared_message(desired, &places.shared)
    );
    let hint = format!(
        "give {0} secrets of its own: move its secrets file away, then run `talmox secrets init {0}`; or, if it is the \
         same cluster under another name, restore the names of it and its nodes, or set the tags on the host of each VM: {1}",
        desired.cluster,
        retag(desired, first)
    );
    Some(Finding::error(FindingCode::SecretsShared, &desired.cluster, message).hint(hint))
}

/// Findings about VMs that `destroy` keeps. They are errors if the secrets are deleted too, because the kept VMs need the
/// secrets.
pub(super) fn spare(desired: &Desired, places: &Placements<'_>, secrets: bool) -> Vec<Finding> {
    let mut findings = vec![];
    if let Some((first, _)) = places.shared.first() {
        let message = format!("{}: they are kept", shared_message(desired, &places.shared));
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

/// Errors about owned VMs that neither tags nor notes assign to this cluster. A copy of the inventory with its secrets has
/// the same markers and UUIDs. So only the name of the cluster shows which cluster a VM belongs to. Without the name,
/// `destroy` deletes nothing.
pub(super) fn unnamed(desired: &Desired, places: &Placements<'_>) -> Vec<Finding> {
    let placed = places.nodes.iter().filter_map(|placed| match &placed.state {
        VmPresence::Owned(found) => Some((&placed.own, found)),
        _ => None,
    });
    let removed = places.removed.iter().map(|(own, found)| (own, found));
    let unnamed = placed.chain(removed).filter(|(_, found)| {
        let config = found.config;
        !config.tags().contains(&desired.cluster)
            && Marker::named_cluster(config.description()).is_none()
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

fn shared_message(desired: &Desired, shared: &[(OwnVm, ObservedVm<'_>)]) -> String {
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
