//! Grows a disk.

use talmox_plan::plan::ResizeDisk;
use talmox_pve::PveError;
use talmox_pve::api::qemu::{self, Vm};
use talmox_pve::config::VmConfig;
use talmox_pve::property::GIB;

use super::super::{Done, RunStep, StepCode, StepContext, StepError};
use super::error;
use super::vm::{FoundVm, owned_vm, see_again};

impl RunStep for ResizeDisk {
    /// Grows the disk to an absolute size, so that the step can be repeated.
    async fn run(&self, context: &StepContext) -> Result<Done, StepError> {
        let Self { own, slot, gib, .. } = self;
        let doing = format!("grow {slot} of VM {} to {gib} GiB", own.vm.vmid);
        if context.vm_cache.is_fresh(own.vm.vmid) && context.attempt == 1 {
            return resize_fresh(self, &doing, context).await;
        }
        let FoundVm { vm, config, .. } = owned_vm(own, context).await?;
        if is_grown(self, &config)? {
            if vm == own.vm {
                context.vm_cache.keep(vm.vmid, config);
            }
            return Ok(Done::Already);
        }
        // Proxmox compares the digest in the task, after it has accepted the call.
        let request = qemu::resize(&vm, slot, *gib, config.digest().as_ref());
        context.run_task(&request, &doing).await?;
        see_grown(self, &vm, &doing, context).await
    }
}

/// Grows the disk of a VM that this run created. Such a VM exists, is owned, and its disk is as small as its image, so the VM
/// is read only afterwards.
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
    // The task fails if the image is larger than the desired size, because a disk cannot shrink.
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
        return Err(StepError::failed(
            StepCode::DiskMissing,
            format!("VM {} has no disk {slot}", own.vm.vmid),
        ));
    };
    Ok(drive.size().is_some_and(|size| size >= u64::from(*gib) * GIB))
}

/// Checks that the disk has grown, and that the VM is owned.
async fn see_grown(
    step: &ResizeDisk,
    vm: &Vm,
    doing: &str,
    context: &StepContext,
) -> Result<Done, StepError> {
    let ResizeDisk { own, slot, gib, .. } = step;
    let grown = see_again(own, vm, context).await?.config.drive(slot).and_then(|it| it.size());
    match grown {
        Some(size) if size < u64::from(*gib) * GIB => Err(StepError::failed(
            StepCode::ChangeNotVisible,
            format!("{doing}: Proxmox reported success, but the disk has {size} bytes"),
        )),
        _ => Ok(Done::Acted),
    }
}
