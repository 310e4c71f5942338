//! Step: restore the marker in the notes of a VM.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::StepKind;
use super::burden::Burden;
use super::node_effect::NodeEffect;
use super::own_vm::OwnVm;
use super::part::Part;
use super::privilege::Privilege;
use super::run_phase::RunPhase;

/// Writes the marker of a node to the notes of its VM, which lost it. The step reads the VM first, and changes it only if its UUID,
/// name and tags prove that it is the VM of the node. The notes are kept.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RestoreMarker {
    pub own: OwnVm,
    /// The name of the cluster, which is a tag of the VM.
    pub cluster: String,
    #[serde(rename = "deadline_seconds", with = "crate::plan::seconds")]
    pub deadline: Duration,
}

impl StepKind for RestoreMarker {
    const KIND: &'static str = "restore-marker";
    const PART: Option<Part> = Some(Part::Vms);
    const PHASE: RunPhase = RunPhase::Change;
    const NODE_EFFECT: NodeEffect = NodeEffect::None;

    fn privileges(&self) -> Vec<Privilege<'_>> {
        vec![Privilege::OnExistingVm(&self.own, "VM.Config.Options")]
    }

    fn burden(&self) -> Burden {
        Burden::on(&self.own.vm.node, [])
    }

    fn deadline(&self) -> Duration {
        self.deadline
    }
}
