//! Step: detach the cidata volume.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use talmox_pve_types::id::DiskSlot;

use super::StepKind;
use super::burden::Burden;
use super::node_effect::NodeEffect;
use super::own_vm::OwnVm;
use super::part::Part;
use super::privilege::Privilege;
use super::run_phase::RunPhase;

/// Detaches the cidata volume from the VM of a running node, and destroys the volume.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DetachCidata {
    pub own: OwnVm,
    pub slot: DiskSlot,
    /// Whether the step sets the protection flag of the VM afterwards. Proxmox does not remove a drive from a protected VM.
    pub protect: bool,
    #[serde(rename = "deadline_seconds", with = "crate::plan::seconds")]
    pub deadline: Duration,
}

impl StepKind for DetachCidata {
    const KIND: &'static str = "detach-cidata";
    const PART: Option<Part> = Some(Part::Vms);
    const PHASE: RunPhase = RunPhase::Change;
    const NODE_EFFECT: NodeEffect = NodeEffect::None;

    fn privileges(&self) -> Vec<Privilege<'_>> {
        vec![]
    }

    fn burden(&self) -> Burden {
        Burden::on(&self.own.vm.node, [])
    }

    fn deadline(&self) -> Duration {
        self.deadline
    }
}
