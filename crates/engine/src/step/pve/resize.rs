use talmox_pve::api::qemu;
use talmox_pve::property::GIB;

use super::super::{Done, StepContext, StepError};
use super::vm::{Found, ours, see_again};
use crate::plan::ResizeDisk;

/// Grows a disk to a size, never by one, so that doing it twice does no harm.
pub(in crate::step) async fn resize(
    step: &ResizeDisk,
    context: &StepContext,
) -> Result<Done, StepError> {
    let ResizeDisk { own, slot, gib, .. } = step;
    let doing = format!("grow {slot} of VM {} to {gib} GiB", own.vm.vmid);
    let Found { vm, config, .. } = ours(own, context).await?;
    let Some(drive) = config.drive(slot) else {
        return Err(StepError::failed(format!("VM {} has no disk {slot}", vm.vmid)));
    };
    if drive.size().is_some_and(|size| size >= u64::from(*gib) * GIB) {
        if vm == own.vm {
            context.seen.keep(vm.vmid, config);
        }
        return Ok(Done::Already);
    }
    // The digest is judged in the task, after the call was taken.
    let request = qemu::resize(&vm, slot, *gib, config.digest().as_ref());
    context.run_task(&request, &doing).await?;
    let grown = see_again(own, &vm, context).await?.config.drive(slot).and_then(|it| it.size());
    match grown {
        Some(size) if size < u64::from(*gib) * GIB => {
            Err(StepError::failed(format!("{doing}: Proxmox says it did, and it has {size} bytes")))
        }
        _ => Ok(Done::Acted),
    }
}
