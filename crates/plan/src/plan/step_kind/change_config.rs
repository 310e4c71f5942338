//! Step: change the config of a running node.

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

/// Applies a changed config to a running node. If the node already has the config, the step sends nothing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChangeConfig {
    /// The node, with the contact at which the node answers now.
    pub node: TalosNode,
    /// The contact at which the node answers after the change.
    pub contact: Contact,
    pub config: PlannedSecret,
    pub mode: ConfigMode,
    /// All control planes. Empty unless this node is a control plane and reboots. Before the reboot, the step checks that
    /// etcd keeps its quorum without this node.
    pub control_planes: Vec<TalosNode>,
    /// The network that the config describes.
    #[serde(rename = "network")]
    pub shape: ExpectedNetwork,
    #[serde(rename = "deadline_seconds", with = "crate::plan::seconds")]
    pub deadline: Duration,
}

/// How a changed config takes effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ConfigMode {
    /// The config takes effect at once.
    Live,
    /// The config takes effect at once. The node reverts it unless talmox reaches the node afterwards, because the change
    /// concerns the network of the node or the endpoint.
    Try,
    /// The node reboots, and the step waits until the node runs again.
    Reboot,
    /// The config takes effect with the next boot, which another step of the plan causes.
    Staged,
}

impl StepKind for ChangeConfig {
    const KIND: &'static str = "change-config";
    const PART: Option<Part> = Some(Part::Configs);
    const PHASE: RunPhase = RunPhase::Change;
    const NODE_EFFECT: NodeEffect = NodeEffect::None;

    fn privileges(&self) -> Vec<Privilege<'_>> {
        match self.contact {
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
