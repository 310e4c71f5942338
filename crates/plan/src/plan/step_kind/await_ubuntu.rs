//! Step: wait for a machine with an operating system other than Talos.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::StepKind;
use super::burden::Burden;
use super::node_effect::NodeEffect;
use super::own_vm::OwnVm;
use super::part::Part;
use super::privilege::Privilege;
use super::run_phase::RunPhase;
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
    const PART: Option<Part> = Some(Part::Configs);
    const PHASE: RunPhase = RunPhase::Change;
    const NODE_EFFECT: NodeEffect = NodeEffect::None;

    fn privileges(&self) -> Vec<Privilege<'_>> {
        if self.has_agent || self.contact == Contact::AskAgent {
            return vec![Privilege::QueryAgent(&self.own)];
        }
        vec![]
    }

    fn burden(&self) -> Burden {
        Burden::default()
    }

    fn deadline(&self) -> Duration {
        self.deadline
    }
}
