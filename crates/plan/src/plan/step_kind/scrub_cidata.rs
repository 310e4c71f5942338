//! Step: overwrite an uploaded cidata volume with zeros.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use talmox_pve_types::id::{NodeName, VolumeId};

use super::StepKind;
use super::burden::Burden;
use super::node_effect::NodeEffect;
use super::part::Part;
use super::privilege::Privilege;
use super::run_phase::RunPhase;

/// Size of an overwritten upload, in bytes. Every volume with a config is larger.
pub const SCRUBBED: usize = 4096;

/// Overwrites an uploaded cidata volume with zeros, by an upload of zeros with the same name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ScrubCidata {
    pub host: NodeName,
    pub volume: VolumeId,
    /// Whether the token may delete the volume. If so, the step also deletes it.
    pub delete: bool,
    #[serde(rename = "deadline_seconds", with = "crate::plan::seconds")]
    pub deadline: Duration,
}

impl StepKind for ScrubCidata {
    const KIND: &'static str = "scrub-cidata";
    const PART: Option<Part> = Some(Part::Vms);
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
