//! Step: create a template.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use talmox_pve_types::api::qemu::Vm;
use talmox_pve_types::config::VmOptions;
use talmox_pve_types::id::PoolId;

use super::StepKind;
use super::burden::Burden;

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

    fn burden(&self) -> Burden {
        Burden::on(&self.vm.node, [])
    }

    fn deadline(&self) -> Duration {
        self.deadline
    }
}
