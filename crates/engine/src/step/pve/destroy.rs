use talmox_pve::api::qemu;
use talmox_pve::config::{VmChange, VmOptions};

use super::super::{Done, StepContext, StepError};
use super::error;
use super::finish::put;
use super::vm::{Sight, is_free, look, not_ours};
use crate::plan::DestroyVm;

/// Destroys a VM of ours with its own volumes. Nothing that merely carries its number is touched.
pub(in crate::step) async fn destroy(
    step: &DestroyVm,
    context: &StepContext,
) -> Result<Done, StepError> {
    let own = &step.own;
    loop {
        // The call cannot be made conditional: marker and UUID are read right before it, every time.
        let found = match look(own, context).await? {
            Sight::Free => return Ok(Done::Already),
            Sight::Ours(found) => found,
            sight => return Err(not_ours(own, &sight)),
        };
        let vm = &found.vm;
        let doing = format!("destroy VM {} on {}", vm.vmid, vm.node);
        if found.config.is_protected() {
            if !step.unprotect {
                let text = format!("VM {} is protected", vm.vmid);
                let hint = "take the protection away in Proxmox first, under Options";
                return Err(StepError::failed(text).hint(hint));
            }
            let change = VmChange {
                set: VmOptions::new().protection(false),
                digest: found.config.digest(),
                ..VmChange::default()
            };
            put(vm, &change, &format!("take the protection of VM {} away", vm.vmid), context)
                .await?;
            continue;
        }
        // With purge it is also taken out of HA and of backup jobs.
        let ended = context.try_task(&qemu::delete(vm, true)).await?;
        if let Err(error) = ended {
            // Gone, or forbidden because it is gone.
            let may_be_gone = error.is_vm_missing() || error.is_permission();
            if !(may_be_gone && is_free(own, context).await?) {
                return Err(error::of(&doing, error));
            }
        } else if !is_free(own, context).await? {
            return Err(StepError::retry(format!("{doing}: Proxmox says it did, and it is there")));
        }
        return Ok(Done::Acted);
    }
}
