//! Clones a template.

use talmox_plan::plan::CloneVm;
use talmox_pve::api::qemu;

use super::super::{Done, RunStep, StepContext, StepError};
use super::making::Making;

impl RunStep for CloneVm {
    /// Clones the template. Until its first config change, the clone has a UUID that Proxmox chose, and only the stage in its
    /// marker identifies it.
    async fn run(&self, context: &StepContext) -> Result<Done, StepError> {
        let (template, new) = (&self.template, &self.own.vm);
        let making = Making {
            own: &self.own,
            request: qemu::clone(template, &self.clone),
            place: template.clone(),
            running: self.running.as_ref(),
            doing: format!(
                "clone the template {} on {} to VM {}",
                template.vmid, template.node, new.vmid
            ),
        };
        making.run(context).await
    }
}
