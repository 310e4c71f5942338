//! Step: clone a template.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use talmox_pve_types::api::qemu::{self, Vm};
use talmox_pve_types::id::Upid;

use super::StepKind;
use super::burden::Burden;
use super::node_effect::NodeEffect;
use super::own_vm::OwnVm;
use super::part::Part;
use super::privilege::Privilege;
use super::run_phase::RunPhase;

/// Clones a template. The marker of the new VM has the stage `clone`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CloneVm {
    pub own: OwnVm,
    pub template: Vm,
    pub clone: qemu::CloneVm,
    /// The task of an earlier run that is still creating this VM. The step waits for that task first.
    pub running: Option<Upid>,
    #[serde(rename = "deadline_seconds", with = "crate::plan::seconds")]
    pub deadline: Duration,
}

impl StepKind for CloneVm {
    const KIND: &'static str = "clone-vm";
    const PART: Option<Part> = Some(Part::Vms);
    const PHASE: RunPhase = RunPhase::Change;
    const NODE_EFFECT: NodeEffect = NodeEffect::Creates;

    fn privileges(&self) -> Vec<Privilege<'_>> {
        let (vmid, pool) = (self.own.vm.vmid, self.clone.pool.as_ref());
        let template = self.template.vmid;
        let mut privileges = vec![
            Privilege::CreateVm { vmid, pool },
            Privilege::CloneTemplate { template, vmid, pool },
        ];
        privileges.extend(self.clone.storage.as_ref().map(Privilege::AllocateSpace));
        privileges
    }

    fn burden(&self) -> Burden {
        Burden::on(&self.own.vm.node, self.clone.storage.clone())
    }

    fn deadline(&self) -> Duration {
        self.deadline
    }
}
