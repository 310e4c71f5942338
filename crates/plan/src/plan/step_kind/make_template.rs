//! Step: create a template.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use talmox_pve_types::api::qemu::Vm;
use talmox_pve_types::config::VmOptions;
use talmox_pve_types::id::PoolId;

use super::StepKind;
use super::burden::Burden;
use super::node_effect::NodeEffect;
use super::part::Part;
use super::privilege::Privilege;
use super::run_phase::RunPhase;

/// Creates a template that contains Talos, without a machine config and without an identity.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MakeTemplate {
    pub vm: Vm,
    pub name: String,
    pub pool: Option<PoolId>,
    pub options: VmOptions,
    #[serde(rename = "deadline_seconds", with = "crate::plan::seconds")]
    pub deadline: Duration,
}

impl StepKind for MakeTemplate {
    const KIND: &'static str = "make-template";
    const PART: Option<Part> = Some(Part::Images);
    const PHASE: RunPhase = RunPhase::Change;
    const NODE_EFFECT: NodeEffect = NodeEffect::None;

    fn privileges(&self) -> Vec<Privilege<'_>> {
        let (vmid, pool) = (self.vm.vmid, self.pool.as_ref());
        vec![Privilege::CreateVm { vmid, pool }, Privilege::UseDevices(&self.options)]
    }

    fn burden(&self) -> Burden {
        Burden::on(&self.vm.node, [])
    }

    fn deadline(&self) -> Duration {
        self.deadline
    }
}
