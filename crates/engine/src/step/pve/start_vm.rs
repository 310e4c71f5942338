//! Starts a VM.

use talmox_plan::plan::StartVm;
use talmox_pve::api::qemu;

use super::super::{Done, RunStep, StepContext, StepError};
use super::error;
use super::power::{await_ha, is_running};
use super::vm::owned_vm;

impl RunStep for StartVm {
    async fn run(&self, context: &StepContext) -> Result<Done, StepError> {
        let vmid = self.own.vm.vmid;
        // A VM that this run created and finished exists, is owned and does not run.
        let vm = if context.vm_cache.take_fresh(vmid) {
            self.own.vm.clone()
        } else {
            let found = owned_vm(&self.own, context).await?;
            if is_running(&found.vm, context).await? {
                return Ok(Done::Already);
            }
            found.vm
        };
        let doing = format!("start VM {vmid} on {}", vm.node);
        match context.try_task(&qemu::start(&vm)).await? {
            Ok(done) => await_ha(&done, &vm, true, context).await?,
            // Another client started the VM, or an earlier attempt whose answer was lost.
            Err(_) if is_running(&vm, context).await? => return Ok(Done::Already),
            Err(error) => return Err(error::of(&doing, error)),
        }
        Ok(Done::Acted)
    }
}
