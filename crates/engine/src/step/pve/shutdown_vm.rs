//! Shutdown of a VM by Proxmox, through its guest agent or ACPI.

use std::time::Duration;

use talmox_plan::plan::OwnVm;
use talmox_pve::api::qemu::{self, Vm, VmStatus};

use super::super::{StepContext, StepError};
use super::earlier::Earlier;
use super::error;
use super::power::{await_ha, is_running, looking};
use super::vm::owned_vm;

/// Tasks of talmox that lock a VM while they run.
const HOLD_THE_LOCK: &[&str] = &["qmstart", "qmstop", "qmshutdown"];

/// The owned VM on its current host, and its state.
pub(in crate::step) async fn vm_power(
    own: &OwnVm,
    context: &StepContext,
) -> Result<(Vm, VmStatus), StepError> {
    let vm = owned_vm(own, context).await?.vm;
    let status = context.ask(&qemu::current(&vm), &looking(&vm)).await?;
    Ok((vm, status))
}

/// Whether a VM is stopped.
pub(in crate::step) async fn is_stopped(vm: &Vm, context: &StepContext) -> Result<bool, StepError> {
    Ok(!is_running(vm, context).await?)
}

/// Shuts a VM down, and stops it if it still runs after `limit`.
pub(in crate::step) async fn shut_down(
    own: &OwnVm,
    limit: Duration,
    context: &StepContext,
) -> Result<(), StepError> {
    let place = context.vm_cache.last_seen(&own.vm);
    let mut earlier = Earlier::new(&place, HOLD_THE_LOCK);
    loop {
        let (vm, status) = vm_power(own, context).await?;
        if !status.running {
            return Ok(());
        }
        let doing = format!("shut VM {} on {} down", vm.vmid, vm.node);
        // A request whose answer was lost may have started a task.
        if context.has_started_task() && earlier.follow(&doing, context).await? {
            continue;
        }
        match context.try_task(&qemu::shutdown(&vm, limit, true)).await? {
            Ok(done) => return await_ha(&done, &vm, false, context).await,
            // An earlier run may have been killed while it started the VM or shut the VM down.
            Err(error) if error.is_locked() && earlier.follow(&doing, context).await? => {}
            Err(error) => return Err(error::of(&doing, error)),
        }
    }
}
