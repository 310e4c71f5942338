//! Step: move a VM to another host.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use talmox_pve_types::id::NodeName;

use super::StepKind;
use super::burden::Burden;
use super::node_effect::NodeEffect;
use super::own_vm::OwnVm;
use super::part::Part;
use super::privilege::Privilege;
use super::run_phase::RunPhase;

/// Moves a VM to another host. Later steps find the VM by its vmid, on any host.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MigrateVm {
    pub own: OwnVm,
    pub target: NodeName,
    /// Whether the VM keeps running. If not, the VM must be stopped, because a device or a local disk prevents a live
    /// migration.
    pub is_online: bool,
    #[serde(rename = "deadline_seconds", with = "crate::plan::seconds")]
    pub deadline: Duration,
}

impl StepKind for MigrateVm {
    const KIND: &'static str = "migrate-vm";
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
