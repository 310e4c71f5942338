//! Creates a PCI mapping.

use talmox_plan::plan::CreateMapping;
use talmox_pve::api::mapping::{self, Mapped, MappedDevice};

use super::super::{Done, RunStep, StepCode, StepContext, StepError};

impl RunStep for CreateMapping {
    /// Creates the mapping. If it exists, adds the missing devices and keeps the others.
    async fn run(&self, context: &StepContext) -> Result<Done, StepError> {
        let Self { id, mapped, .. } = self;
        let doing = format!("create the PCI mapping {id}");
        let known = context.ask(&mapping::list(None), &doing).await?;
        let Some(found) = known.into_iter().find(|mapping| mapping.id == *id) else {
            context.change(&mapping::create(id, mapped), &doing).await?;
            return Ok(Done::Acted);
        };
        let found = found.mapped;
        let is_same = |a: &MappedDevice, b: &MappedDevice| a.node == b.node && a.path == b.path;
        let lacks =
            |device: &&MappedDevice| !found.devices.iter().any(|other| is_same(device, other));
        let missing: Vec<MappedDevice> = mapped.devices.iter().filter(lacks).cloned().collect();
        if missing.is_empty() {
            return Ok(Done::Already);
        }
        // With two devices of one host in a mapping, Proxmox would choose one of them.
        let clashes = |new: &&MappedDevice| found.devices.iter().any(|old| old.node == new.node);
        if let Some(new) = missing.iter().find(clashes) {
            let text = format!("the PCI mapping {id} already has another device on {}", new.node);
            return Err(StepError::failed(StepCode::MappingConflict, text)
                .hint("choose another name for the mapping"));
        }
        let devices = found.devices.iter().cloned().chain(missing).collect();
        context.change(&mapping::update(id, &Mapped { devices, ..found }), &doing).await?;
        Ok(Done::Acted)
    }
}
