//! The change that makes a VM what it was meant to be.

use talmox_pve::PveError;
use talmox_pve::api::qemu::{self, Vm};
use talmox_pve::config::{VmChange, VmConfig, VmOptions, drift};
use talmox_pve::id::DiskSlot;
use talmox_pve::property::Drive;

use super::super::{Done, StepContext, StepError};
use super::error;
use super::vm::{Found, ours};
use crate::plan::FinishVm;

/// Sets what create or clone could not, in one change that is conditional on the config it was made
/// for.
pub(in crate::step) async fn finish(
    step: &FinishVm,
    context: &StepContext,
) -> Result<Done, StepError> {
    let Found { vm, config, .. } = ours(&step.own, context).await?;
    let change = change(step, &config);
    if change.set.is_empty() && change.delete.is_empty() {
        return Ok(Done::Already);
    }
    put(&vm, &change, &format!("configure VM {} on {}", vm.vmid, vm.node), context).await?;
    Ok(Done::Acted)
}

/// What of the wanted options is not so yet.
///
/// Drives are made by being named, so they are named only where nothing is; and a cloud-init drive
/// that is named again loses its volume.
fn change(step: &FinishVm, config: &VmConfig) -> VmChange {
    let mut set = VmOptions::new();
    for differs in drift(&step.set, config) {
        let is_drive = differs.key.parse::<DiskSlot>().is_ok();
        let is_taken = differs.found.is_some()
            || (Drive::parse(&differs.wanted).is_cloudinit() && config.cloudinit().is_some());
        if !(is_drive && is_taken) {
            set = set.set(&differs.key, &differs.wanted);
        }
    }
    let is_there = |key: &&String| config.get(key).is_some();
    VmChange {
        set,
        delete: step.delete.iter().filter(is_there).cloned().collect(),
        digest: config.digest(),
        ..VmChange::default()
    }
}

/// Changes a config. A refusal may come after a part was taken, which would then come true at the
/// next start: that part is taken back.
pub(super) async fn put(
    vm: &Vm,
    change: &VmChange,
    doing: &str,
    context: &StepContext,
) -> Result<(), StepError> {
    let sent = context.act(async { Ok(context.send(&qemu::set_config(vm, change)).await) });
    let error = match sent.await? {
        Ok(()) => return Ok(()),
        Err(error) => error,
    };
    let is_refusal = matches!(error, PveError::Rejected(_));
    // Both are judged before anything is taken.
    if !is_refusal || error.is_digest_mismatch() || error.is_locked() {
        return Err(error::of(doing, error));
    }
    let left = revert(vm, change, context).await;
    let error = error::of(doing, error);
    match left {
        Ok(reverted) if reverted.is_empty() => Err(error),
        Ok(reverted) => {
            context.note(format!("took back what was left of it: {}", reverted.join(", ")));
            Err(error)
        }
        Err(also) => {
            let hint = format!(
                "a part of the change may still be pending on VM {} ({also}): see it in Proxmox \
                 under Hardware and Options, and revert it there",
                vm.vmid
            );
            Err(error.hint(hint))
        }
    }
}

/// Takes back those options of a refused change that became pending, and names them.
async fn revert(
    vm: &Vm,
    change: &VmChange,
    context: &StepContext,
) -> Result<Vec<String>, StepError> {
    let doing = format!("take back what is pending on VM {}", vm.vmid);
    let pending = context.ask(&qemu::pending(vm), &doing).await?;
    let is_ours = |key: &str| {
        change.set.get(key).is_some() || change.delete.iter().any(|deleted| deleted == key)
    };
    let left = pending.into_iter().filter(|option| option.pending.is_some());
    let left: Vec<String> = left.map(|option| option.key).filter(|key| is_ours(key)).collect();
    if !left.is_empty() {
        let change = VmChange { revert: left.clone(), ..VmChange::default() };
        context.change(&qemu::set_config(vm, &change), &doing).await?;
    }
    Ok(left)
}
