//! Creates a VM.

use talmox_plan::plan::CreateVm;
use talmox_pve::api::qemu;

use super::super::{Done, RunStep, StepContext, StepError};
use super::making::Making;

impl RunStep for CreateVm {
    /// Tags are set later: with them the call needs a right that only an existing VM can give.
    async fn run(&self, context: &StepContext) -> Result<Done, StepError> {
        let vm = &self.own.vm;
        let making = Making {
            own: &self.own,
            request: qemu::create(vm, self.pool.as_ref(), &self.options),
            place: vm.clone(),
            running: self.running.as_ref(),
            doing: format!("create VM {} on {}", vm.vmid, vm.node),
        };
        making.run(context).await
    }
}
