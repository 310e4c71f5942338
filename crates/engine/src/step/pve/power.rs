//! On and off.

use talmox_pve::api::qemu::{self, Vm, VmStatus};
use talmox_pve::client::TaskDone;

use super::super::{Done, StepContext, StepError};
use super::error;
use super::vm::{Sight, look, not_ours, ours};
use crate::patience::LOOK_AT_PROXMOX;
use crate::plan::{OwnVm, StartVm, StopVm};

pub(in crate::step) async fn start(
    step: &StartVm,
    context: &StepContext,
) -> Result<Done, StepError> {
    let vmid = step.own.vm.vmid;
    // What this run made and finished is there, ours and off.
    let vm = if context.seen.take_fresh(vmid) {
        step.own.vm.clone()
    } else {
        let found = ours(&step.own, context).await?;
        if is_running(&found.vm, context).await? {
            return Ok(Done::Already);
        }
        found.vm
    };
    let doing = format!("start VM {vmid} on {}", vm.node);
    match context.try_task(&qemu::start(&vm)).await? {
        Ok(done) => await_ha(&done, &vm, true, context).await?,
        // Somebody was faster; or it is our own start of before, whose answer was lost.
        Err(_) if is_running(&vm, context).await? => return Ok(Done::Already),
        Err(error) => return Err(error::of(&doing, error)),
    }
    Ok(Done::Acted)
}

/// Pulls the plug. A shutdown would be friendlier, and Talos in maintenance mode answers it with a
/// reboot.
pub(in crate::step) async fn stop(step: &StopVm, context: &StepContext) -> Result<Done, StepError> {
    let found = match look(&step.own, context).await? {
        Sight::Free => return Ok(Done::Already),
        Sight::Ours(found) => found,
        sight => return Err(not_ours(&step.own, &sight)),
    };
    let vm = &found.vm;
    let status = status(vm, context).await?;
    if !status.running {
        return Ok(Done::Already);
    }
    let doing = format!("stop VM {} on {}", vm.vmid, vm.node);
    // A shutdown that is under way is overruled, which HA does by itself and does not want to hear.
    let done = context.run_task(&qemu::stop(vm, !status.ha_managed), &doing).await?;
    await_ha(&done, vm, false, context).await?;
    Ok(Done::Acted)
}

/// Presses the reset button of a VM that does not answer.
pub(in crate::step) async fn reset(own: &OwnVm, context: &StepContext) -> Result<(), StepError> {
    let found = ours(own, context).await?;
    let doing = format!("reset VM {} on {}", found.vm.vmid, found.vm.node);
    if !is_running(&found.vm, context).await? {
        return Err(StepError::failed(format!("VM {} does not run", found.vm.vmid))
            .hint("running the same command again starts it"));
    }
    context.run_task(&qemu::reset(&found.vm), &doing).await.map(|_| ())
}

async fn is_running(vm: &Vm, context: &StepContext) -> Result<bool, StepError> {
    Ok(status(vm, context).await?.running)
}

async fn status(vm: &Vm, context: &StepContext) -> Result<VmStatus, StepError> {
    context.ask(&qemu::current(vm), &format!("look whether VM {} runs", vm.vmid)).await
}

/// A VM in the care of HA is only asked for: the task ends at once, and the manager does it on its
/// next round.
async fn await_ha(
    done: &TaskDone,
    vm: &Vm,
    wanted: bool,
    context: &StepContext,
) -> Result<(), StepError> {
    if !matches!(done.upid.kind(), "hastart" | "hastop") {
        return Ok(());
    }
    let verb = if wanted { "start" } else { "stop" };
    context.waits(format!("the HA manager to {verb} VM {}", vm.vmid));
    while is_running(vm, context).await? != wanted {
        if context.deadline.has_passed() {
            let text = format!("the HA manager did not {verb} VM {} in time", vm.vmid);
            return Err(StepError::failed(text).hint("see `ha-manager status` on a host"));
        }
        context.pause(LOOK_AT_PROXMOX).await?;
    }
    Ok(())
}
