//! Step: grow a disk.

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

/// Grows a disk.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ResizeDisk {
    pub own: OwnVm,
    pub slot: DiskSlot,
    pub gib: u32,
    #[serde(rename = "deadline_seconds", with = "crate::plan::seconds")]
    pub deadline: Duration,
}

impl StepKind for ResizeDisk {
    const KIND: &'static str = "resize-disk";
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
