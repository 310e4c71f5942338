//! Step: wait until the cluster is healthy.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::StepKind;
use super::talos_node::TalosNode;

/// Waits until the cluster is healthy.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AwaitHealth {
    pub nodes: Vec<TalosNode>,
    pub goal: HealthGoal,
    #[serde(rename = "deadline_seconds", with = "crate::plan::seconds")]
    pub deadline: Duration,
}

impl StepKind for AwaitHealth {
    const KIND: &'static str = "await-health";

    fn deadline(&self) -> Duration {
        self.deadline
    }
}

/// When a cluster counts as healthy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum HealthGoal {
    /// All nodes are ready.
    Ready,
    /// All nodes are registered. They must also be ready if a pod network exists, although no known setting installs
    /// one.
    Registered,
    /// As `Registered`, but an add-on may install a pod network some time after it was applied.
    Settled,
}
