use talmox_pve::api::qemu;
use talmox_pve::config::{PendingChange, VmChange};

use super::super::{Done, StepContext, StepError};
use super::error;
use super::vm::{Found, ours};
use crate::patience::{DETACH_PAUSE, DETACHES};
use crate::plan::DetachCidata;

/// Takes the volume with the config away from a VM, and destroys it.
pub(in crate::step) async fn detach_cidata(
    step: &DetachCidata,
    context: &StepContext,
) -> Result<Done, StepError> {
    let DetachCidata { own, slot, .. } = step;
    let Found { vm, config, .. } = ours(own, context).await?;
    if config.drive(slot).is_none() {
        return Ok(Done::Already);
    }
    let doing = format!("take {slot} away from VM {}", vm.vmid);
    let change = VmChange {
        delete: vec![slot.to_string()],
        destroy: true,
        digest: config.digest(),
        ..VmChange::default()
    };
    let sent = context.act(async { Ok(context.send(&qemu::set_config(&vm, &change)).await) });
    let Err(error) = sent.await? else { return Ok(Done::Acted) };
    if error.status().is_none() || error.is_locked() || error.is_digest_mismatch() {
        return Err(error::of(&doing, error));
    }
    // Where the guest held on to it, the wish stays pending, which is as we want it.
    let pending = context.ask(&qemu::pending(&vm), &doing).await?;
    let waits = pending.iter().any(|option| {
        option.key == slot.as_str()
            && matches!(option.pending, Some(PendingChange::Delete | PendingChange::Destroy))
    });
    if !waits {
        return Err(error::of(&doing, error));
    }
    if context.attempt < DETACHES {
        return Err(StepError::retry(doing).after(DETACH_PAUSE).caused_by(error));
    }
    context.note(format!("the guest holds on to {slot}: it goes when VM {} stops", vm.vmid));
    Ok(Done::Acted)
}
