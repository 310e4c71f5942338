//! Changes the config of a VM. If Proxmox rejects a change, no part of it stays pending.

use talmox_pve::PveError;
use talmox_pve::api::qemu::{self, Vm};
use talmox_pve::config::VmChange;

use super::super::{StepContext, StepError};
use super::error;

/// Reason why a config was not changed.
pub(super) struct PutError {
    pub(super) error: StepError,
    /// The text of Proxmox, if the tag policy rejected the change.
    pub(super) rejection: Option<String>,
}

/// Changes a config. A part of a change that Proxmox rejects may be pending, and would take effect at the next start. This
/// function reverts that part.
pub(super) async fn try_put(
    vm: &Vm,
    change: &VmChange,
    doing: &str,
    context: &StepContext,
) -> Result<Result<(), PutError>, StepError> {
    let sent = context.act(async { Ok(context.send(&qemu::set_config(vm, change)).await) });
    match sent.await? {
        Ok(()) => Ok(Ok(())),
        Err(error) => undo(error, vm, change, doing, context).await.map(Err),
    }
}

/// Like [`try_put`], but in a task, because a change that creates a disk may take longer than the timeout of a call.
pub(super) async fn try_put_in_task(
    vm: &Vm,
    change: &VmChange,
    doing: &str,
    context: &StepContext,
) -> Result<Result<(), PutError>, StepError> {
    match context.try_task(&qemu::start_config(vm, change)).await? {
        Ok(_) => Ok(Ok(())),
        Err(error) => undo(error, vm, change, doing, context).await.map(Err),
    }
}

/// Reverts the pending part of a change that Proxmox rejected. Errors of other kinds are returned as errors of the step.
async fn undo(
    error: PveError,
    vm: &Vm,
    change: &VmChange,
    doing: &str,
    context: &StepContext,
) -> Result<PutError, StepError> {
    let is_rejection = matches!(error, PveError::Rejected(_) | PveError::TaskFailed(_));
    // Proxmox checks the digest and the lock before it stores any option.
    if !is_rejection || error.is_digest_mismatch() || error.is_locked() {
        return Err(error::of(doing, error));
    }
    let left = revert(vm, change, context).await;
    let rejection = error.is_tag_policy().then(|| error.to_string());
    let error = error::of(doing, error);
    match left {
        Ok(reverted) => {
            if !reverted.is_empty() {
                context.note(format!(
                    "reverted the pending part of the change: {}",
                    reverted.join(", ")
                ));
            }
            Ok(PutError { error, rejection })
        }
        Err(also) => {
            let hint = format!(
                "a part of the change may still be pending on VM {} ({also}): revert it in Proxmox \
                 under Hardware and Options",
                vm.vmid
            );
            Err(error.hint(hint))
        }
    }
}

/// Reverts the options of a rejected change that became pending, and returns their names.
async fn revert(
    vm: &Vm,
    change: &VmChange,
    context: &StepContext,
) -> Result<Vec<String>, StepError> {
    let doing = format!("revert pending options of VM {}", vm.vmid);
    let pending = context.ask(&qemu::pending(vm), &doing).await?;
    let is_of_change = |key: &str| {
        change.set.get(key).is_some() || change.delete.iter().any(|deleted| deleted == key)
    };
    let left = pending.into_iter().filter(|option| option.pending.is_some());
    let left: Vec<String> = left.map(|option| option.key).filter(|key| is_of_change(key)).collect();
    if !left.is_empty() {
        let change = VmChange { revert: left.clone(), ..VmChange::default() };
        context.change(&qemu::set_config(vm, &change), &doing).await?;
    }
    Ok(left)
}
