//! Step: let a node register in Kubernetes again.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::StepKind;
use super::burden::Burden;
use super::node_effect::NodeEffect;
use super::part::Part;
use super::privilege::Privilege;
use super::run_phase::RunPhase;
use super::talos_node::TalosNode;

/// Restarts the kubelet of a node whose Node object was deleted, and waits until Kubernetes lists the node again. A kubelet
/// registers its node only when it starts. If Talos rejects the restart, the node is rebooted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RestartKubelet {
    pub node: TalosNode,
    /// Whether the node must be ready. False in a cluster without a pod network.
    pub awaits_ready: bool,
    /// All control planes. Empty unless this node is a control plane. Before a reboot, the step checks that etcd keeps its
    /// quorum without this node.
    pub control_planes: Vec<TalosNode>,
    #[serde(rename = "deadline_seconds", with = "crate::plan::seconds")]
    pub deadline: Duration,
}

impl StepKind for RestartKubelet {
    const KIND: &'static str = "restart-kubelet";
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
