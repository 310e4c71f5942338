//! Step: create a PCI mapping.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use talmox_pve_types::api::mapping::Mapped;
use talmox_pve_types::id::ConfigId;

use super::StepKind;
use super::burden::Burden;
use super::node_effect::NodeEffect;
use super::part::Part;
use super::privilege::Privilege;
use super::run_phase::RunPhase;

/// Creates a PCI mapping of a device, because a token may pass through only mapped devices.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CreateMapping {
    pub id: ConfigId,
    pub mapped: Mapped,
    #[serde(rename = "deadline_seconds", with = "crate::plan::seconds")]
    pub deadline: Duration,
}

impl StepKind for CreateMapping {
    const KIND: &'static str = "create-mapping";
    const PART: Option<Part> = Some(Part::Vms);
    const PHASE: RunPhase = RunPhase::Preparation;
    const NODE_EFFECT: NodeEffect = NodeEffect::None;

    fn privileges(&self) -> Vec<Privilege<'_>> {
        vec![Privilege::CreateMappings]
    }

    fn burden(&self) -> Burden {
        Burden::default()
    }

    fn deadline(&self) -> Duration {
        self.deadline
    }
}
