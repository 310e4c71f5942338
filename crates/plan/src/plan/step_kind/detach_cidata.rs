//! Step: detach the cidata volume.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use talmox_pve_types::id::DiskSlot;

use super::StepKind;
use super::burden::Burden;
use super::own_vm::OwnVm;

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

    fn burden(&self) -> Burden {
        Burden::on(&self.own.vm.node, [])
    }

    fn deadline(&self) -> Duration {
        self.deadline
    }
}
