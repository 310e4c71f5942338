//! Step: drain a node.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::StepKind;
use super::burden::Burden;
use super::node_effect::NodeEffect;
use super::part::Part;
use super::privilege::Privilege;
use super::run_phase::RunPhase;

/// Annotation that talmox sets on a node that it cordons. A node that a user or another program cordoned stays cordoned.
pub const CORDONED: &str = "talmox/cordoned";

/// Cordons a node and evicts its pods, within their disruption budgets.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DrainNode {
    /// The name of the node in Kubernetes.
    pub node: String,
    /// Whether the pods of the node are evicted. False if no other node could run them.
    pub evicts: bool,
    #[serde(rename = "deadline_seconds", with = "crate::plan::seconds")]
    pub deadline: Duration,
}

impl StepKind for DrainNode {
    const KIND: &'static str = "drain-node";
    const PART: Option<Part> = Some(Part::Configs);
    const PHASE: RunPhase = RunPhase::Change;
    const NODE_EFFECT: NodeEffect = NodeEffect::Interrupts;

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
