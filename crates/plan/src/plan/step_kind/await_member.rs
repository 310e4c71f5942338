//! Step: wait until a node has joined.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::StepKind;
use super::burden::Burden;
use super::node_effect::NodeEffect;
use super::part::Part;
use super::privilege::Privilege;
use super::run_phase::RunPhase;
use super::talos_node::TalosNode;
use crate::desired::ExpectedNetwork;

/// Waits until a node has joined the cluster: its kubelet is registered, and a control plane is also a member of etcd. In a
/// cluster with a pod network, a new node must also be ready.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AwaitMember {
    pub node: TalosNode,
    /// The network that the node must have. None if another step of the run checks the network.
    #[serde(rename = "network")]
    pub shape: Option<ExpectedNetwork>,
    /// Whether the node must also be ready. False if the cluster has no pod network yet, because no node is ready without one.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub awaits_ready: bool,
    #[serde(rename = "deadline_seconds", with = "crate::plan::seconds")]
    pub deadline: Duration,
}

impl StepKind for AwaitMember {
    const KIND: &'static str = "await-member";
    const PART: Option<Part> = Some(Part::Configs);
    const PHASE: RunPhase = RunPhase::Change;
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
