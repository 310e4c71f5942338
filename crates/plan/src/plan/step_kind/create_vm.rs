//! Step: create a VM.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use talmox_pve_types::config::VmOptions;
use talmox_pve_types::id::{DiskSlot, PoolId, StorageId, Upid};
use talmox_pve_types::property::Drive;

use super::StepKind;
use super::burden::Burden;
use super::node_effect::NodeEffect;
use super::own_vm::OwnVm;
use super::part::Part;
use super::privilege::Privilege;
use super::run_phase::RunPhase;

/// Creates a VM. The marker of the new VM has the stage `create`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CreateVm {
    pub own: OwnVm,
    pub pool: Option<PoolId>,
    /// All options except the tags. Setting tags needs a privilege on the VM, which the token has only after the VM exists.
    pub options: VmOptions,
    /// The task of an earlier run that is still creating this VM. The step waits for that task first.
    pub running: Option<Upid>,
    #[serde(rename = "deadline_seconds", with = "crate::plan::seconds")]
    pub deadline: Duration,
}

impl StepKind for CreateVm {
    const KIND: &'static str = "create-vm";
    const PART: Option<Part> = Some(Part::Vms);
    const PHASE: RunPhase = RunPhase::Change;
    const NODE_EFFECT: NodeEffect = NodeEffect::Creates;

    fn privileges(&self) -> Vec<Privilege<'_>> {
        let (vmid, pool) = (self.own.vm.vmid, self.pool.as_ref());
        vec![Privilege::CreateVm { vmid, pool }, Privilege::UseDevices(&self.options)]
    }

    fn burden(&self) -> Burden {
        Burden::on(&self.own.vm.node, self.storages())
    }

    fn deadline(&self) -> Duration {
        self.deadline
    }
}

impl CreateVm {
    /// The storages of the disks of the VM, without duplicates.
    fn storages(&self) -> Vec<StorageId> {
        let drives = self.options.iter().filter(|(key, _)| key.parse::<DiskSlot>().is_ok());
        let mut storages: Vec<StorageId> =
            drives.filter_map(|(_, value)| Drive::parse(value).storage().cloned()).collect();
        storages.sort_unstable();
        storages.dedup();
        storages
    }
}
