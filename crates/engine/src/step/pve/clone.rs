use talmox_plan::plan::CloneVm;
use talmox_pve::api::qemu;

use super::super::{Done, StepContext, StepError};
use super::making::Making;

/// Clones a template. Until its first change the clone has a UUID of Proxmox's choice, and is known
/// by the stage in its marker.
pub(in crate::step) async fn clone(
    step: &CloneVm,
    context: &StepContext,
) -> Result<Done, StepError> {
    let (template, new) = (&step.template, &step.own.vm);
    let making = Making {
        own: &step.own,
        request: qemu::clone(template, &step.clone),
        place: template.clone(),
        running: step.running.as_ref(),
        doing: format!(
            "clone the template {} on {} to VM {}",
            template.vmid, template.node, new.vmid
        ),
    };
    making.run(context).await
}
