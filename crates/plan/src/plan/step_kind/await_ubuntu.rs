//! Step: wait for a machine with an operating system other than Talos.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::StepKind;
use super::own_vm::OwnVm;
use crate::desired::Contact;

/// Waits until a machine with an operating system other than Talos answers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AwaitUbuntu {
    pub own: OwnVm,
    pub contact: Contact,
    /// Whether the guest agent must answer. If not, port 22 must be open.
    pub has_agent: bool,
    #[serde(rename = "deadline_seconds", with = "crate::plan::seconds")]
    pub deadline: Duration,
}

impl StepKind for AwaitUbuntu {
    const KIND: &'static str = "await-ubuntu";

    fn deadline(&self) -> Duration {
        self.deadline
    }
}
