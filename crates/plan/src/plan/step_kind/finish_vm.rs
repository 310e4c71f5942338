//! Step: set the options that create or clone could not set.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use talmox_pve_types::config::VmOptions;

use super::StepKind;
use super::burden::Burden;
use super::own_vm::OwnVm;

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

    fn burden(&self) -> Burden {
        Burden::on(&self.own.vm.node, [])
    }

    fn deadline(&self) -> Duration {
        self.deadline
    }
}
