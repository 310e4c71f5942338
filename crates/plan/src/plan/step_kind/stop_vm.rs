//! Step: stop a VM.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::StepKind;
use super::burden::Burden;
use super::own_vm::OwnVm;

/// Stops a VM without a shutdown of its operating system, because Talos in maintenance mode reboots on a shutdown request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StopVm {
    pub own: OwnVm,
    #[serde(rename = "deadline_seconds", with = "crate::plan::seconds")]
    pub deadline: Duration,
}

impl StepKind for StopVm {
    const KIND: &'static str = "stop-vm";

    fn burden(&self) -> Burden {
        Burden::on(&self.own.vm.node, [])
    }

    fn deadline(&self) -> Duration {
        self.deadline
    }
}
