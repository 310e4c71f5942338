//! Step: wait until the cluster is healthy.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::StepKind;
use super::burden::Burden;
use super::node_effect::NodeEffect;
use super::part::Part;
use super::privilege::Privilege;
use super::run_phase::RunPhase;
use super::talos_node::TalosNode;

/// Waits until the cluster is healthy.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AwaitHealth {
    pub nodes: Vec<TalosNode>,
    pub goal: HealthGoal,
    /// Whether etcd may have members that are not control planes of the inventory, such as nodes that no step has removed.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub allows_other_members: bool,
    #[serde(rename = "deadline_seconds", with = "crate::plan::seconds")]
    pub deadline: Duration,
}

impl StepKind for AwaitHealth {
    const KIND: &'static str = "await-health";
    const PART: Option<Part> = None;
    const PHASE: RunPhase = RunPhase::End;
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

/// When a cluster counts as healthy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum HealthGoal {
    /// All nodes are ready.
    Ready,
    /// All nodes are registered in Kubernetes. If the cluster has a pod network, the nodes must also be ready. This goal is
    /// used if no known setting or add-on installs a pod network.
    Registered,
    /// The same as `Registered`, but the step waits for some time for a pod network, because an add-on may install one.
    Settled,
}
