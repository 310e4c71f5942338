//! Step: shut a node down.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::StepKind;
use super::burden::Burden;
use super::node_effect::NodeEffect;
use super::own_vm::OwnVm;
use super::part::Part;
use super::privilege::Privilege;
use super::run_phase::RunPhase;
use super::talos_node::TalosNode;

/// Shuts a node down through its operating system, and waits until its VM is stopped. If the VM does not stop in time,
/// Proxmox stops it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ShutdownNode {
    pub own: OwnVm,
    /// The node, if it runs Talos. A node with another operating system is shut down through Proxmox.
    pub talos: Option<TalosNode>,
    /// All control planes. Empty unless this node is a control plane. Before the shutdown, the step checks that etcd keeps
    /// its quorum without this node.
    pub control_planes: Vec<TalosNode>,
    #[serde(rename = "deadline_seconds", with = "crate::plan::seconds")]
    pub deadline: Duration,
}

impl StepKind for ShutdownNode {
    const KIND: &'static str = "shutdown-node";
    const PART: Option<Part> = Some(Part::Configs);
    const PHASE: RunPhase = RunPhase::Change;
    const NODE_EFFECT: NodeEffect = NodeEffect::Interrupts;

    fn privileges(&self) -> Vec<Privilege<'_>> {
        vec![Privilege::OnVm(&self.own, "VM.PowerMgmt")]
    }

    fn burden(&self) -> Burden {
        Burden::on(&self.own.vm.node, [])
    }

    fn deadline(&self) -> Duration {
        self.deadline
    }
}
