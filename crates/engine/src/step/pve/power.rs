//! Power state of VMs: reads, resets, and waits for the HA manager.

use talmox_plan::plan::OwnVm;
use talmox_pve::PveError;
use talmox_pve::api::qemu::{self, Vm};
use talmox_pve::client::TaskDone;

use super::super::{StepCode, StepContext, StepError};
use super::error;
use super::vm::owned_vm;
use crate::timeouts::PROXMOX_PAUSE;

/// Resets a VM that does not answer. If the answer is lost, or if Proxmox does not report the end of the task, the VM may
/// have been reset, and the reset counts as done.
pub(in crate::step) async fn reset(own: &OwnVm, context: &StepContext) -> Result<(), StepError> {
    let found = owned_vm(own, context).await?;
    let doing = format!("reset VM {} on {}", found.vm.vmid, found.vm.node);
    if !is_running(&found.vm, context).await? {
        return Err(StepError::failed(
            StepCode::VmNotRunning,
            format!("VM {} does not run", found.vm.vmid),
        )
        .hint("run the same command to start it"));
    }
    let reset = context.try_task(&qemu::reset(&found.vm)).await?;
    // The caller waits for the machine, as for every machine that boots.
    context.set_started_task(false);
    match reset {
        Ok(_) | Err(PveError::MaybeApplied { .. }) => Ok(()),
        Err(error) => Err(error::of(&doing, error)),
    }
}

pub(super) async fn is_running(vm: &Vm, context: &StepContext) -> Result<bool, StepError> {
    Ok(context.ask(&qemu::current(vm), &looking(vm)).await?.running)
}

pub(super) fn looking(vm: &Vm) -> String {
    format!("read the state of VM {}", vm.vmid)
}

/// Waits for the HA manager, if it manages the VM. In that case the task ends at once, and the HA manager starts or stops the
/// VM in its next round.
pub(super) async fn await_ha(
    done: &TaskDone,
    vm: &Vm,
    desired: bool,
    context: &StepContext,
) -> Result<(), StepError> {
    if !matches!(done.upid.kind(), "hastart" | "hastop") {
        return Ok(());
    }
    let verb = if desired { "start" } else { "stop" };
    context.waits_for(format!("the HA manager to {verb} VM {}", vm.vmid));
    while is_running(vm, context).await? != desired {
        if context.deadline.has_passed() {
            let text = format!("the HA manager did not {verb} VM {} in time", vm.vmid);
            return Err(StepError::failed(StepCode::Timeout, text)
                .hint("run `ha-manager status` on a host"));
        }
        context.pause_to_see(PROXMOX_PAUSE).await?;
    }
    Ok(())
}
