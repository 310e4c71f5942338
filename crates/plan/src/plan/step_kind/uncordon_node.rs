//! Step: let Kubernetes schedule pods on a node again.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::StepKind;
use super::burden::Burden;
use super::node_effect::NodeEffect;
use super::part::Part;
use super::privilege::Privilege;
use super::run_phase::RunPhase;

/// Waits until Kubernetes reports a node as ready, and uncordons the node if talmox cordoned it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct UncordonNode {
    /// The name of the node in Kubernetes.
    pub node: String,
    /// Whether the node must be ready. False in a cluster without a pod network, and if a user requested the uncordon.
    pub awaits_ready: bool,
    /// Whether a user requested the uncordon. If so, the node is uncordoned even if talmox did not cordon it.
    pub is_asked: bool,
    #[serde(rename = "deadline_seconds", with = "crate::plan::seconds")]
    pub deadline: Duration,
}

impl StepKind for UncordonNode {
    const KIND: &'static str = "uncordon-node";
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
