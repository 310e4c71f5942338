//! A plan as data: changes for people, findings, and steps to execute.
//!
//! The same input gives the same bytes, and the executor has nothing left to decide.

mod change;
mod field_value;
mod finding_code;
mod observed_fingerprint;
mod planned_secret;
mod saved;
mod seconds;
pub mod show;
mod step;
mod step_graph;
mod step_id;
mod step_kind;

pub use change::{Change, Class, FieldChange, Finding, Object, Severity};
pub use field_value::{DiskValue, FieldValue};
pub use finding_code::FindingCode;
pub use planned_secret::PlannedSecret;
pub use saved::{SavedPlan, SavedPlanError, has_same_steps};
pub use step::Step;
pub(crate) use step_graph::StepGraph;
pub use step_id::StepId;
pub use step_kind::*;

use serde::{Deserialize, Serialize};

use crate::sha256::sha256_hex;

/// A plan. Its JSON form is described in `docs/PLAN-JSON.md`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Plan {
    /// The name of the cluster.
    pub cluster: String,
    pub changes: Vec<Change>,
    pub findings: Vec<Finding>,
    /// The steps, in an order in which they could be executed one by one.
    pub steps: Vec<Step>,
}

impl Plan {
    /// Whether there is nothing to do.
    pub fn is_empty(&self) -> bool {
        self.changes.is_empty() && self.steps.is_empty()
    }

    /// The findings because of which the plan cannot be executed.
    pub fn errors(&self) -> impl Iterator<Item = &Finding> {
        self.findings.iter().filter(|finding| finding.severity == Severity::Error)
    }

    /// The nodes whose VMs the run may reset, and how often. All of them are VMs that the run creates.
    pub fn may_reset(&self) -> Vec<(&str, u32)> {
        let resets = self.steps.iter().filter_map(|step| match &step.action {
            Action::ApplyConfig(apply) if apply.resets > 0 => {
                Some((apply.node.name.as_str(), apply.resets))
            }
            _ => None,
        });
        resets.collect()
    }

    /// The SHA-256 of the JSON form. It depends on the secrets of the plan through their hashes.
    pub fn fingerprint(&self) -> String {
        let form = serde_json::to_vec(self).expect("invariant: plans set no secret VM options");
        sha256_hex(&form)
    }

    /// Changes that no step makes.
    pub fn open_changes(&self) -> impl Iterator<Item = &Change> {
        self.changes.iter().filter(|change| !change.is_planned)
    }
}
