//! Step: change the options of a VM.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use talmox_pve_types::config::VmOptions;
use talmox_pve_types::id::PoolId;

use super::StepKind;
use super::burden::Burden;
use super::node_effect::NodeEffect;
use super::own_vm::OwnVm;
use super::part::Part;
use super::privilege::Privilege;
use super::run_phase::RunPhase;

/// Changes the options of an existing VM in one request. The request contains the digest of the config that was just read, so
/// Proxmox rejects it if the config has changed since. On a running VM, some options take effect only with the next start.
/// Planning orders the steps accordingly.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChangeVm {
    pub own: OwnVm,
    /// The options to set. Only options that differ from the observed ones are sent. A drive is sent only if its slot is
    /// empty, or if the drive names the volume in that slot. In the second case, only the options of the drive change.
    pub set: VmOptions,
    /// Options to delete. Only options that exist are deleted, and never a disk.
    pub delete: Vec<String>,
    /// The pool that the VM must be in.
    pub pool: Option<PoolId>,
    #[serde(rename = "deadline_seconds", with = "crate::plan::seconds")]
    pub deadline: Duration,
}

impl StepKind for ChangeVm {
    const KIND: &'static str = "change-vm";
    const PART: Option<Part> = Some(Part::Vms);
    const PHASE: RunPhase = RunPhase::Change;
    const NODE_EFFECT: NodeEffect = NodeEffect::None;

    fn privileges(&self) -> Vec<Privilege<'_>> {
        vec![Privilege::UseDevices(&self.set)]
    }

    fn burden(&self) -> Burden {
        Burden::on(&self.own.vm.node, [])
    }

    fn deadline(&self) -> Duration {
        self.deadline
    }
}
