//! Pending options of a VM. Proxmox applies them when the VM is stopped.

use talmox_pve_types::config::{Drift, PendingChange, PendingOption, VmConfig, VmOptions, drift};
use talmox_pve_types::id::VmId;

use super::placed::ObservedVm;
use super::vm_value::shown;
use crate::desired::DesiredNode;
use crate::plan::{FieldChange, Finding, FindingCode};

/// Whether an option has its desired value now, and another value is pending. Setting the desired value reverts the pending
/// one at once.
pub(super) fn is_reverted(one: &Drift, pending: &[PendingOption]) -> bool {
    let is_it = |option: &&PendingOption| option.key == one.key && option.pending.is_some();
    let Some(option) = pending.iter().find(is_it) else { return false };
    let desired = VmOptions::new().set(&one.key, &one.desired);
    let current = option.value.iter().map(|value| (one.key.clone(), value.clone()));
    drift(&desired, &VmConfig::new(current)).is_empty()
}

/// The pending options for which the desired state does not require another value.
pub(super) fn waiting<'a>(
    pending: &'a [PendingOption],
    drifted: &'a [Drift],
) -> impl Iterator<Item = &'a PendingOption> {
    let is_set = move |key: &str| drifted.iter().any(|one| one.key == key);
    pending.iter().filter(move |option| option.pending.is_some() && !is_set(&option.key))
}

pub(super) fn field(option: &PendingOption) -> FieldChange {
    let old = option.value.as_deref().map(|value| shown(&option.key, value));
    let new = match &option.pending {
        Some(PendingChange::Set(value)) => Some(shown(&option.key, value)),
        Some(PendingChange::Delete | PendingChange::Destroy) | None => None,
    };
    FieldChange::of(&option.key, old, new)
}

/// The warning about options that take effect with the next stop of the VM, which no run stops for them. None if there are no
/// such options.
pub(super) fn deferred(node: &str, vmid: VmId, keys: &[&str]) -> Option<Finding> {
    if keys.is_empty() {
        return None;
    }
    let message =
        format!("VM {vmid} uses these options after its next stop and start: {}", keys.join(", "));
    let hint = format!(
        "to apply them now, run `talmox node shutdown {node}` and `talmox node start {node}`"
    );
    Some(Finding::warning(FindingCode::OptionPending, node, message).hint(hint))
}

/// The warning about volumes that Proxmox deletes when the VM is stopped. None if no volume is deleted.
pub(super) fn lost_with_stop(node: &DesiredNode, found: &ObservedVm<'_>) -> Option<Finding> {
    let is_lost = |option: &&PendingOption| option.pending == Some(PendingChange::Destroy);
    let pending = found.seen.pending.iter().filter(is_lost).map(|option| option.key.as_str());
    let lost: Vec<&str> = pending.collect();
    if lost.is_empty() {
        return None;
    }
    let message =
        format!("Proxmox deletes volumes of its VM when the VM is stopped: {}", lost.join(", "));
    let hint = "to keep them, revert the pending change in Proxmox (Hardware); `--allow-removal` lets talmox stop the VM";
    Some(Finding::warning(FindingCode::ChangesPending, &node.name, message).hint(hint))
}
