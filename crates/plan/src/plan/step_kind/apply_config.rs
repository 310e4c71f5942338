//! Step: apply the config of a node.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::StepKind;
use super::burden::Burden;
use super::node_effect::NodeEffect;
use super::part::Part;
use super::privilege::Privilege;
use super::run_phase::RunPhase;
use super::talos_node::TalosNode;
use crate::desired::{Contact, ExpectedNetwork};
use crate::plan::planned_secret::PlannedSecret;
use crate::plan::step_id::StepId;

/// Applies the config of a node. Then waits until the node answers with the credentials of the cluster, at its address and
/// with its name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ApplyConfig {
    pub node: TalosNode,
    pub by: ConfigBy,
    /// Whether the VM has a cloud-init drive. If so, the machine must also report the instance id of that drive.
    pub has_drive: bool,
    pub config: PlannedSecret,
    /// The Talos version of the config, such as `v1.11.2`.
    pub talos_version: String,
    /// The template that the VM is cloned from. None if the node was in the cluster before. The Talos version of the template
    /// is known only after the machine has started.
    pub template: Option<String>,
    /// The network that the config describes.
    #[serde(rename = "network")]
    pub shape: ExpectedNetwork,
    /// Whether this run starts the VM of the node.
    pub is_started: bool,
    /// Maximum number of resets of the VM while the Talos API port of the machine stays closed.
    pub resets: u32,
    /// Timeout of a boot. A boot that a reset can still follow has a shorter timeout.
    #[serde(rename = "boot_seconds", with = "crate::plan::seconds")]
    pub boot: Duration,
    /// Steps that the node needs before it can answer: a worker gets its certificate from a control plane. The config can be
    /// applied before these steps are done. If one of them fails, this step stops waiting.
    pub needs: Vec<StepId>,
    /// Deadline of the whole step.
    #[serde(rename = "deadline_seconds", with = "crate::plan::seconds")]
    pub deadline: Duration,
}

impl StepKind for ApplyConfig {
    const KIND: &'static str = "apply-config";
    const PART: Option<Part> = Some(Part::Configs);
    const PHASE: RunPhase = RunPhase::Change;
    const NODE_EFFECT: NodeEffect = NodeEffect::None;

    fn privileges(&self) -> Vec<Privilege<'_>> {
        match self.node.contact {
            Contact::AskAgent => vec![Privilege::QueryAgent(&self.node.own)],
            Contact::At(_) => vec![],
        }
    }

    fn burden(&self) -> Burden {
        Burden::default()
    }

    fn deadline(&self) -> Duration {
        self.deadline
    }
}

/// How a node gets its config.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ConfigBy {
    /// talmox sends the config to the machine in maintenance mode, after a check of the identity of the machine.
    Maintenance,
    /// The machine reads the config from its cidata volume. The step only waits.
    Volume,
}
