//! Step: let Kubernetes schedule pods on a node again.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::StepKind;

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

    fn deadline(&self) -> Duration {
        self.deadline
    }
}
