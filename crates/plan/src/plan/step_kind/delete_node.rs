//! Step: delete a node from Kubernetes.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::StepKind;
use super::burden::Burden;
use super::node_effect::NodeEffect;
use super::part::Part;
use super::privilege::Privilege;
use super::run_phase::RunPhase;

/// Deletes the Kubernetes Node object of a node whose machine no longer exists.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeleteNode {
    /// The name of the node in Kubernetes.
    pub node: String,
    /// Whether the node must not be ready. True if talmox did not stop the machine of the node itself.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub only_unready: bool,
    #[serde(rename = "deadline_seconds", with = "crate::plan::seconds")]
    pub deadline: Duration,
}

impl StepKind for DeleteNode {
    const KIND: &'static str = "delete-node";
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
