//! Step: delete a node from Kubernetes.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::StepKind;

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

    fn deadline(&self) -> Duration {
        self.deadline
    }
}
