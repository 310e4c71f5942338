use talmox_plan::plan::{DestroyVm, OwnVm};
use talmox_plan::planning::unprotect;
use talmox_pve::PveError;
use talmox_pve::api::qemu;

use super::super::{Done, StepContext, StepError};
use super::earlier::Earlier;
use super::error;
use super::vm::{FoundVm, Sight, is_free, look, not_ours};

/// The tasks by which VMs go.
const DESTROYS: &[&str] = &["qmdestroy"];

/// Destroys a VM of ours with its own volumes. Nothing that merely carries its number is touched.
pub(in crate::step) async fn destroy(
    step: &DestroyVm,
    context: &StepContext,
) -> Result<Done, StepError> {
    let own = &step.own;
    let mut earlier = Earlier::new(&own.vm, DESTROYS);
    loop {
        // The call cannot be made conditional: marker and UUID are read right before it, every time.
        let Some(found) = still_there(own, context).await? else { return Ok(Done::Already) };
        let vm = &found.vm;
        let doing = format!("destroy VM {} on {}", vm.vmid, vm.node);
        if found.config.is_protected() {
            let text = format!("VM {} is protected", vm.vmid);
            return Err(StepError::failed(text).hint(unprotect(&vm.node, vm.vmid)));
        }
        // Of a call whose answer was lost there may be a task.
        if context.has_begun() && earlier.follow(&doing, context).await? {
            continue;
        }
        // With purge it is also taken out of HA and of backup jobs.
        match context.try_task(&qemu::delete(vm, true)).await? {
            Ok(_) if is_free(own, context).await? => return Ok(Done::Acted),
            Ok(_) => {
                let text = format!("{doing}: Proxmox says it did, and it is there");
                return Err(StepError::retry(text));
            }
            // It may be a run of before that holds the lock: its task takes as long as disks take to go.
            Err(error) if error.is_locked() && earlier.follow(&doing, context).await? => {}
            Err(error) if is_gone(own, &error, context).await? => return Ok(Done::Acted),
            Err(error) => return Err(error::of(&doing, error)),
        }
    }
}

/// The VM that is to end, if it is still there. A run of before may have been killed while its task was destroying
/// it: then it loses its marker and its pool first, and its number last.
pub(super) async fn still_there(
    own: &OwnVm,
    context: &StepContext,
) -> Result<Option<FoundVm>, StepError> {
    let doing = format!("look at VM {}", own.vm.vmid);
    let mut earlier = Earlier::new(&own.vm, DESTROYS);
    let mut is_last_look = false;
    loop {
        match look(own, context).await? {
            Sight::Free => return Ok(None),
            Sight::Ours(found) => return Ok(Some(found)),
            sight if is_last_look => return Err(not_ours(own, &sight)),
            // The task may have ended since we looked.
            _ => is_last_look = !earlier.follow(&doing, context).await?,
        }
    }
}

/// Whether a call was refused because there is nothing any more: to a token with few rights gone and forbidden look
/// alike.
pub(super) async fn is_gone(
    own: &OwnVm,
    error: &PveError,
    context: &StepContext,
) -> Result<bool, StepError> {
    let may_be = error.is_vm_missing() || error.is_permission();
    Ok(may_be && still_there(own, context).await?.is_none())
}
