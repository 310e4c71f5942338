//! Step: clear the alarms of etcd.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::StepKind;
use super::burden::Burden;
use super::node_effect::NodeEffect;
use super::part::Part;
use super::privilege::Privilege;
use super::run_phase::RunPhase;
use super::talos_node::TalosNode;

/// Clears the alarms of all etcd members, through the first control plane that answers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DisarmAlarms {
    /// The control planes.
    pub nodes: Vec<TalosNode>,
    #[serde(rename = "deadline_seconds", with = "crate::plan::seconds")]
    pub deadline: Duration,
}

impl StepKind for DisarmAlarms {
    const KIND: &'static str = "disarm-alarms";
    const PART: Option<Part> = Some(Part::Configs);
    const PHASE: RunPhase = RunPhase::Change;
    const NODE_EFFECT: NodeEffect = NodeEffect::None;

    fn privileges(&self) -> Vec<Privilege<'_>> {
        vec![]
    }

    fn burden(&self) -> Burden {
        Burden::default()
    }

    fn deadline(&self) -> Duration {
        self.deadline
    }
}
