use talmox_plan::plan::ResizeDisk;
use talmox_pve::PveError;
use talmox_pve::api::qemu::{self, Vm};
use talmox_pve::config::VmConfig;
use talmox_pve::property::GIB;

use super::super::{Done, StepContext, StepError};
use super::error;
use super::vm::{FoundVm, ours, see_again};

/// Grows a disk to a size, never by one, so that doing it twice does no harm.
pub(in crate::step) async fn resize(
    step: &ResizeDisk,
    context: &StepContext,
) -> Result<Done, StepError> {
    let ResizeDisk { own, slot, gib, .. } = step;
    let doing = format!("grow {slot} of VM {} to {gib} GiB", own.vm.vmid);
    if context.seen.is_fresh(own.vm.vmid) && context.attempt == 1 {
        return resize_fresh(step, &doing, context).await;
    }
    let FoundVm { vm, config, .. } = ours(own, context).await?;
    if is_grown(step, &config)? {
        if vm == own.vm {
            context.seen.keep(vm.vmid, config);
        }
        return Ok(Done::Already);
    }
    // The digest is judged in the task, after the call was taken.
    let request = qemu::resize(&vm, slot, *gib, config.digest().as_ref());
    context.run_task(&request, &doing).await?;
    see_grown(step, &vm, &doing, context).await
}

/// What this run made is there and ours, and has a disk as small as its image: it is looked at afterwards.
async fn resize_fresh(
    step: &ResizeDisk,
    doing: &str,
    context: &StepContext,
) -> Result<Done, StepError> {
    let ResizeDisk { own, slot, gib, .. } = step;
    let request = qemu::resize(&own.vm, slot, *gib, None);
    let Err(error) = context.try_task(&request).await? else {
        return see_grown(step, &own.vm, doing, context).await;
    };
    // No disk shrinks: an image may be larger than what is asked for.
    if matches!(error, PveError::TaskFailed(_))
        && is_grown(step, &see_again(own, &own.vm, context).await?.config)?
    {
        return Ok(Done::Already);
    }
    Err(error::of(doing, error))
}

fn is_grown(step: &ResizeDisk, config: &VmConfig) -> Result<bool, StepError> {
    let ResizeDisk { own, slot, gib, .. } = step;
    let Some(drive) = config.drive(slot) else {
        return Err(StepError::failed(format!("VM {} has no disk {slot}", own.vm.vmid)));
    };
    Ok(drive.size().is_some_and(|size| size >= u64::from(*gib) * GIB))
}

/// Looks whether it grew, and whether it is ours.
async fn see_grown(
    step: &ResizeDisk,
    vm: &Vm,
    doing: &str,
    context: &StepContext,
) -> Result<Done, StepError> {
    let ResizeDisk { own, slot, gib, .. } = step;
    let grown = see_again(own, vm, context).await?.config.drive(slot).and_then(|it| it.size());
    match grown {
        Some(size) if size < u64::from(*gib) * GIB => {
            Err(StepError::failed(format!("{doing}: Proxmox says it did, and it has {size} bytes")))
        }
        _ => Ok(Done::Acted),
    }
}
