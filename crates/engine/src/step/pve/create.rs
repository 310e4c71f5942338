use talmox_plan::plan::CreateVm;
use talmox_pve::api::qemu;

use super::super::{Done, StepContext, StepError};
use super::making::Making;

/// Makes a VM. Tags come later: with them the call needs a right that only a VM that is there can
/// give.
pub(in crate::step) async fn create(
    step: &CreateVm,
    context: &StepContext,
) -> Result<Done, StepError> {
    let vm = &step.own.vm;
    let making = Making {
        own: &step.own,
        request: qemu::create(vm, step.pool.as_ref(), &step.options),
        place: vm.clone(),
        running: step.running.as_ref(),
        doing: format!("create VM {} on {}", vm.vmid, vm.node),
    };
    making.run(context).await
}
