//! Creates a VM.

use talmox_plan::plan::CreateVm;
use talmox_pve::api::qemu;

use super::super::{Done, RunStep, StepContext, StepError};
use super::making::Making;

impl RunStep for CreateVm {
    /// Creates the VM without tags. A request with tags needs a privilege on the VM, which the token has only once the
    /// VM exists.
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
