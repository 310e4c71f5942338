//! Step: set the options that create or clone could not set.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use talmox_pve_types::config::VmOptions;
use talmox_pve_types::property::Drive;

use super::StepKind;
use super::burden::Burden;
use super::node_effect::NodeEffect;
use super::own_vm::OwnVm;
use super::part::Part;
use super::privilege::Privilege;
use super::run_phase::RunPhase;

/// Sets the options that create or clone could not set, and the stage `made`, in one request. The request contains the digest
/// of the config that was just read, so Proxmox rejects it if the config has changed since.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FinishVm {
    pub own: OwnVm,
    /// The options to set. A drive is sent only if its slot is empty, and a cloud-init drive only if the VM has none.
    /// Otherwise a retry would create the drive a second time. Tags that the tag policy of the datacenter rejects are
    /// omitted.
    pub set: VmOptions,
    /// Options to delete, because a clone may have them from its template. Only options that exist are deleted.
    pub delete: Vec<String>,
    #[serde(rename = "deadline_seconds", with = "crate::plan::seconds")]
    pub deadline: Duration,
}

impl StepKind for FinishVm {
    const KIND: &'static str = "finish-vm";
    const PART: Option<Part> = Some(Part::Vms);
    const PHASE: RunPhase = RunPhase::Change;
    const NODE_EFFECT: NodeEffect = NodeEffect::Creates;

    fn privileges(&self) -> Vec<Privilege<'_>> {
        let mut privileges =
            vec![Privilege::UseDevices(&self.set), Privilege::OnVm(&self.own, "VM.Config.Options")];
        if self.set.get("ide2").is_some_and(|value| Drive::parse(value).is_cloudinit()) {
            privileges.push(Privilege::OnVm(&self.own, "VM.Config.CDROM"));
            privileges.push(Privilege::OnVm(&self.own, "VM.Config.Cloudinit"));
        }
        privileges
    }

    fn burden(&self) -> Burden {
        Burden::on(&self.own.vm.node, [])
    }

    fn deadline(&self) -> Duration {
        self.deadline
    }
}
