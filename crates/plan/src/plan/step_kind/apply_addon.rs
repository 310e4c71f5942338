//! Step: apply an add-on.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::StepKind;
use super::burden::Burden;
use super::node_effect::NodeEffect;
use super::part::Part;
use super::privilege::Privilege;
use super::run_phase::RunPhase;
use crate::desired::{AddonNamespace, AddonSource};

/// Applies the manifests of an add-on, and waits until its workloads run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ApplyAddon {
    pub name: String,
    pub source: AddonSource,
    /// Namespace of the objects that name none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<AddonNamespace>,
    /// Whether the step ends as soon as the objects are applied, without waiting for the workloads.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub skips_rollout: bool,
    #[serde(rename = "deadline_seconds", with = "crate::plan::seconds")]
    pub deadline: Duration,
}

impl StepKind for ApplyAddon {
    const KIND: &'static str = "apply-addon";
    const PART: Option<Part> = Some(Part::Addons);
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
