//! Step: delete an image.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use talmox_pve_types::id::{NodeName, VolumeId};

use super::StepKind;
use super::burden::Burden;
use super::node_effect::NodeEffect;
use super::part::Part;
use super::privilege::Privilege;
use super::run_phase::RunPhase;

/// Deletes an image of the inventory that no VM uses.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeleteImage {
    pub host: NodeName,
    pub volume: VolumeId,
    #[serde(rename = "deadline_seconds", with = "crate::plan::seconds")]
    pub deadline: Duration,
}

impl StepKind for DeleteImage {
    const KIND: &'static str = "delete-image";
    const PART: Option<Part> = Some(Part::Images);
    const PHASE: RunPhase = RunPhase::Change;
    const NODE_EFFECT: NodeEffect = NodeEffect::None;

    fn privileges(&self) -> Vec<Privilege<'_>> {
        vec![]
    }

    fn burden(&self) -> Burden {
        Burden::on(&self.host, [self.volume.storage().clone()])
    }

    fn deadline(&self) -> Duration {
        self.deadline
    }
}
