//! Host of a VM: whether the VM is migrated to the host in the inventory.
//!
//! The VM of a node without `host:` stays where HA or a user moved it. A VM that HA manages stays where HA placed it.

use talmox_pve_types::config::VmConfig;
use talmox_pve_types::id::{NodeName, StorageId, VmId};

use super::node_change::Migration;
use super::placed::ObservedVm;
use crate::desired::{Desired, DesiredNode};
use crate::observed::Pve;
use crate::plan::{Finding, FindingCode};
use crate::rights::{Grants, PveRole};

/// Note of a change with an offline migration.
pub(super) const OFFLINE: &str =
    "a passed-through device or a local disk prevents a live migration";

/// Difference between the host of a VM and the host in the inventory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum HostDrift {
    None,
    Moves(Migration),
    /// The VM stays on its host. The finding contains the reason.
    Stays(Finding),
}

impl HostDrift {
    pub(super) fn of(
        desired: &Desired,
        node: &DesiredNode,
        vmid: VmId,
        found: &ObservedVm<'_>,
        pve: &Pve,
    ) -> Self {
        let host = &found.seen.host;
        let is_elsewhere = |target: &&NodeName| *target != host && pve.host(target).is_some();
        let Some(target) = node.host.as_ref().filter(is_elsewhere) else { return Self::None };
        if let Some(hint) = obstacle(desired, node, vmid, (host, target), found.config, pve) {
            let message = format!("its VM is on {host}, and the inventory says {target}");
            let finding = Finding::warning(FindingCode::VmElsewhere, &node.name, message);
            return Self::Stays(finding.hint(hint));
        }
        let is_online =
            found.seen.is_running && can_move_online(node, vmid, host, found.config, pve);
        Self::Moves(Migration { target: target.clone(), is_online })
    }
}

/// Hint that says why the VM cannot be migrated. None if it can be migrated.
fn obstacle(
    desired: &Desired,
    node: &DesiredNode,
    vmid: VmId,
    (host, target): (&NodeName, &NodeName),
    config: &VmConfig,
    pve: &Pve,
) -> Option<String> {
    if node.pinned_host.is_none() {
        let hint = "to let talmox migrate the VM, set `host:` of the node; without it talmox uses the VM where it is";
        return Some(hint.to_owned());
    }
    let state = pve.guest(vmid).and_then(|guest| guest.ha_state.as_deref());
    if state.is_some_and(|state| state != "ignored") {
        let hint = "HA manages the VM and chooses its host: change the HA rules, or `host:`; talmox uses the VM where it is";
        return Some(hint.to_owned());
    }
    if !pve.is_online(target) {
        return Some(format!(
            "the VM is migrated when {target} is online; talmox uses the VM where it is"
        ));
    }
    let place = node.pool.as_ref().map(|pool| format!("/pool/{pool}"));
    let own = format!("/vms/{vmid}");
    let mut paths = place.iter().chain([&own]);
    if !paths.any(|path| pve.permissions.allows(path, "VM.Migrate")) {
        let place = place.clone().unwrap_or_else(|| "/vms".to_owned());
        let lines = Grants::one(place, PveRole::Migrate).lines(&desired.login).join("\n");
        return Some(format!(
            "to let talmox migrate the VM, grant VM.Migrate as root on a host; talmox uses the VM where it is\n{lines}"
        ));
    }
    // Proxmox lists a storage only with the right to read it.
    let is_missing = |storage: &StorageId| {
        pve.storage(host, storage).is_some() && pve.storage(target, storage).is_none()
    };
    let missing = storages(config).find(is_missing);
    if let Some(storage) = missing {
        return Some(format!(
            "{target} has no storage {storage}, which holds a volume of the VM: change `host:`; talmox uses the VM where it is"
        ));
    }
    None
}

/// Whether the VM can keep running during the migration. Proxmox cannot migrate a passed-through device, and would copy local
/// disks.
fn can_move_online(
    node: &DesiredNode,
    vmid: VmId,
    host: &NodeName,
    config: &VmConfig,
    pve: &Pve,
) -> bool {
    let is_device = |key: &str| key.starts_with("hostpci") || key.starts_with("usb");
    let has_device = node.vm.gpu.is_some() || config.iter().any(|(key, _)| is_device(key));
    let is_shared = |storage: StorageId| pve.storage(host, &storage).is_some_and(|it| it.shared);
    let has_shared_disks = match pve.migrations.get(&vmid) {
        Some(check) => check.local_disks.is_empty() && check.local_resources.is_empty(),
        None => storages(config).all(is_shared),
    };
    !has_device && has_shared_disks
}

/// The storages of all volumes of a VM.
fn storages(config: &VmConfig) -> impl Iterator<Item = StorageId> {
    config.drives().filter_map(|(_, drive)| drive.storage().cloned())
}
