//! Step: post a schematic to the Image Factory.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::StepKind;
use super::burden::Burden;
use super::node_effect::NodeEffect;
use super::part::Part;
use super::privilege::Privilege;
use super::run_phase::RunPhase;

/// Posts a schematic to the Image Factory. Posting the same schematic twice does no harm.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PostSchematic {
    /// The URL of the factory, without a slash at the end.
    pub factory: String,
    /// The id that the factory must return.
    pub id: String,
    /// The schematic, as it is sent to the factory.
    pub yaml: String,
    #[serde(rename = "deadline_seconds", with = "crate::plan::seconds")]
    pub deadline: Duration,
}

impl StepKind for PostSchematic {
    const KIND: &'static str = "post-schematic";
    const PART: Option<Part> = Some(Part::Images);
    const PHASE: RunPhase = RunPhase::Preparation;
    const NODE_EFFECT: NodeEffect = NodeEffect::None;

    fn privileges(&self) -> Vec<Privilege<'_>> {
        vec![]
    }

    fn burden(&self) -> Burden {
        Burden::default()
    }

    fn deadline(&self) -> Duration {
        self.deadline
    }
}
