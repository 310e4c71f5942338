//! On and off.

use talmox_plan::plan::{OwnVm, StartVm, StopVm};
use talmox_pve::PveError;
use talmox_pve::api::qemu::{self, Vm};
use talmox_pve::client::TaskDone;

use super::super::{Done, StepContext, StepError};
use super::destroy::{is_gone, still_there};
use super::earlier::Earlier;
use super::error;
use super::vm::{FoundVm, ours};
use crate::patience::LOOK_AT_PROXMOX;

/// Tasks of ours that keep others from a VM as long as they run.
const HOLD_THE_LOCK: &[&str] = &["qmstart", "qmstop", "resize", "qmdestroy"];

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
    let own = &step.own;
    let mut earlier = Earlier::new(&own.vm, HOLD_THE_LOCK);
    loop {
        let Some(FoundVm { vm, .. }) = still_there(own, context).await? else {
            return Ok(Done::Already);
        };
        let status = match context.try_ask(&qemu::current(&vm)).await? {
            Ok(status) => status,
            Err(error) if is_gone(own, &error, context).await? => return Ok(Done::Already),
            Err(error) => return Err(error::of(&looking(&vm), error)),
        };
        if !status.running {
            return Ok(Done::Already);
        }
        let doing = format!("stop VM {} on {}", vm.vmid, vm.node);
        // Of a call whose answer was lost there may be a task.
        if context.has_begun() && earlier.follow(&doing, context).await? {
            continue;
        }
        // A shutdown that is under way is overruled, which HA does by itself and does not want to hear.
        match context.try_task(&qemu::stop(&vm, !status.ha_managed)).await? {
            Ok(done) => {
                await_ha(&done, &vm, false, context).await?;
                return Ok(Done::Acted);
            }
            // A run of before may have been killed while it started or stopped the VM.
            Err(error) if error.is_locked() && earlier.follow(&doing, context).await? => {}
            Err(error) if is_gone(own, &error, context).await? => return Ok(Done::Already),
            Err(error) => return Err(error::of(&doing, error)),
        }
    }
}

/// Presses the reset button of a VM that does not answer. Done is also what may have been done: of a call whose answer
/// was lost, and of a task that nobody hears of any more.
pub(in crate::step) async fn reset(own: &OwnVm, context: &StepContext) -> Result<(), StepError> {
    let found = ours(own, context).await?;
    let doing = format!("reset VM {} on {}", found.vm.vmid, found.vm.node);
    if !is_running(&found.vm, context).await? {
        return Err(StepError::failed(format!("VM {} does not run", found.vm.vmid))
            .hint("running the same command again starts it"));
    }
    let reset = context.try_task(&qemu::reset(&found.vm)).await?;
    // What the machine makes of it is waited for as for any machine.
    context.set_begun(false);
    match reset {
        Ok(_) | Err(PveError::MaybeApplied { .. }) => Ok(()),
        Err(error) => Err(error::of(&doing, error)),
    }
}

async fn is_running(vm: &Vm, context: &StepContext) -> Result<bool, StepError> {
    Ok(context.ask(&qemu::current(vm), &looking(vm)).await?.running)
}

fn looking(vm: &Vm) -> String {
    format!("look whether VM {} runs", vm.vmid)
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
        context.pause_to_see(LOOK_AT_PROXMOX).await?;
    }
    Ok(())
}
