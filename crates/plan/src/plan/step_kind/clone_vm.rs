//! Step: clone a template.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use talmox_pve_types::api::qemu::{self, Vm};
use talmox_pve_types::id::Upid;

use super::StepKind;
use super::burden::Burden;
use super::own_vm::OwnVm;

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

    fn burden(&self) -> Burden {
        Burden::on(&self.own.vm.node, self.clone.storage.clone())
    }

    fn deadline(&self) -> Duration {
        self.deadline
    }
}
