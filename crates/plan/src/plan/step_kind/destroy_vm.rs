//! Step: destroy a VM.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::StepKind;
use super::burden::Burden;
use super::own_vm::OwnVm;

/// Destroys a stopped VM and its volumes. Another VM that has the same vmid is not destroyed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DestroyVm {
    pub own: OwnVm,
    #[serde(rename = "deadline_seconds", with = "crate::plan::seconds")]
    pub deadline: Duration,
}

impl StepKind for DestroyVm {
    const KIND: &'static str = "destroy-vm";

    fn burden(&self) -> Burden {
        Burden::on(&self.own.vm.node, [])
    }

    fn deadline(&self) -> Duration {
        self.deadline
    }
}
