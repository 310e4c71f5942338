//! Stops a VM without a shutdown, because Talos in maintenance mode answers a shutdown with a reboot.

use talmox_plan::plan::StopVm;
use talmox_pve::api::qemu;

use super::super::{Done, RunStep, StepContext, StepError};
use super::destroy_vm::{is_gone, still_there};
use super::earlier::Earlier;
use super::error;
use super::power::{await_ha, looking};
use super::vm::FoundVm;

/// Tasks of talmox that lock a VM while they run.
const HOLD_THE_LOCK: &[&str] = &["qmstart", "qmstop", "resize", "qmdestroy"];

impl RunStep for StopVm {
    async fn run(&self, context: &StepContext) -> Result<Done, StepError> {
        let own = &self.own;
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
            // A request whose answer was lost may have started a task.
            if context.has_started_task() && earlier.follow(&doing, context).await? {
                continue;
            }
            // The stop overrules a running shutdown. The HA manager does that by itself, and rejects the parameter.
            match context.try_task(&qemu::stop(&vm, !status.ha_managed)).await? {
                Ok(done) => {
                    await_ha(&done, &vm, false, context).await?;
                    return Ok(Done::Acted);
                }
                // An earlier run may have been killed while it started or stopped the VM.
                Err(error) if error.is_locked() && earlier.follow(&doing, context).await? => {}
                Err(error) if is_gone(own, &error, context).await? => return Ok(Done::Already),
                Err(error) => return Err(error::of(&doing, error)),
            }
        }
    }
}
