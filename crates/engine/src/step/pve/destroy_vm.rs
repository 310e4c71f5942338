//! Destroys a stopped VM.

use talmox_plan::plan::{DestroyVm, OwnVm};
use talmox_plan::planning::unprotect;
use talmox_pve::PveError;
use talmox_pve::api::qemu;

use super::super::{Done, RunStep, StepCode, StepContext, StepError};
use super::earlier::Earlier;
use super::error;
use super::vm::{FoundVm, VmAtId, is_free, look, unexpected_vm};

/// Tasks that destroy a VM.
const DESTROYS: &[&str] = &["qmdestroy"];

impl RunStep for DestroyVm {
    /// Destroys an owned VM with its volumes. Does not destroy a foreign VM with the same vmid.
    async fn run(&self, context: &StepContext) -> Result<Done, StepError> {
        let own = &self.own;
        let mut earlier = Earlier::new(&own.vm, DESTROYS);
        loop {
            // The request cannot be conditional, so marker and UUID are read right before each request.
            let Some(found) = still_there(own, context).await? else { return Ok(Done::Already) };
            let vm = &found.vm;
            let doing = format!("destroy VM {} on {}", vm.vmid, vm.node);
            if found.config.is_protected() {
                let text = format!("VM {} is protected", vm.vmid);
                return Err(StepError::failed(StepCode::DeletionProtected, text)
                    .hint(unprotect(&vm.node, vm.vmid)));
            }
            // A request whose answer was lost may have started a task.
            if context.has_started_task() && earlier.follow(&doing, context).await? {
                continue;
            }
            // With purge, Proxmox also removes the VM from HA and from backup jobs.
            match context.try_task(&qemu::delete(vm, true)).await? {
                Ok(_) if is_free(own, context).await? => return Ok(Done::Acted),
                Ok(_) => {
                    let text =
                        format!("{doing}: Proxmox reported success, but the VM still exists");
                    return Err(StepError::retry(StepCode::ChangeNotVisible, text));
                }
                // A task of an earlier run may hold the lock until all disks are deleted.
                Err(error) if error.is_locked() && earlier.follow(&doing, context).await? => {}
                Err(error) if is_gone(own, &error, context).await? => return Ok(Done::Acted),
                Err(error) => return Err(error::of(&doing, error)),
            }
        }
    }
}

/// The VM that must be stopped or destroyed; `None` if it no longer exists. If an earlier run was killed, its destroy task may
/// still run. Such a task first removes the marker and takes the VM out of its pool, and frees the vmid last. So if the VM has
/// no marker, this function waits for the task before it reports a foreign VM.
pub(super) async fn still_there(
    own: &OwnVm,
    context: &StepContext,
) -> Result<Option<FoundVm>, StepError> {
    let doing = format!("look at VM {}", own.vm.vmid);
    let mut earlier = Earlier::new(&own.vm, DESTROYS);
    let mut is_last_look = false;
    loop {
        match look(own, context).await? {
            VmAtId::Free => return Ok(None),
            VmAtId::Owned(found) => return Ok(Some(found)),
            sight if is_last_look => return Err(unexpected_vm(own, &sight)),
            // The task may have ended since the VM was read.
            _ => is_last_look = !earlier.follow(&doing, context).await?,
        }
    }
}

/// Whether a call was rejected because the VM no longer exists. This needs a check, because Proxmox returns the same error for
/// a missing VM and for a VM that the token may not access.
pub(super) async fn is_gone(
    own: &OwnVm,
    error: &PveError,
    context: &StepContext,
) -> Result<bool, StepError> {
    let may_be = error.is_vm_missing() || error.is_permission();
    Ok(may_be && still_there(own, context).await?.is_none())
}
