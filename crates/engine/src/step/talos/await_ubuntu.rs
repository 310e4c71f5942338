//! Waits for a machine that does not run Talos.

use talmox_plan::plan::AwaitUbuntu;

use super::{Awaited, ExplainedWait, or_wait};
use crate::other_system::look;
use crate::step::{Done, RunStep, StepContext, StepError};

impl RunStep for AwaitUbuntu {
    async fn run(&self, context: &StepContext) -> Result<Done, StepError> {
        await_ubuntu(self, context).await
    }
}

async fn await_ubuntu(step: &AwaitUbuntu, context: &StepContext) -> Result<Done, StepError> {
    let vmid = step.own.vm.vmid;
    let awaited = Awaited {
        failure: format!("VM {vmid} does not come up"),
        what: format!("VM {vmid} to come up"),
    };
    let mut wait = ExplainedWait::new(context, awaited).about([&step.own]);
    let reach = &context.cluster()?.settings.reach;
    let (vm, pve) = (context.vm_cache.last_seen(&step.own.vm), &context.run.pve);
    loop {
        let looking = look(&vm, step.contact, step.has_agent, pve, reach);
        let () = or_wait!(wait, context.wait(looking).await?);
        return Ok(Done::Already);
    }
}
