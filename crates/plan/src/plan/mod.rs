//! A plan as data: changes to show to the user, findings, and steps to execute.
//!
//! The same input always gives the same plan, byte for byte. The plan contains every decision, so the executor makes none.

mod change;
mod field_value;
mod finding_code;
mod memory_text;
mod observed_fingerprint;
mod planned_secret;
mod saved;
mod seconds;
pub mod show;
mod step;
mod step_graph;
mod step_id;
mod step_kind;

pub use change::{Change, Class, FieldChange, Finding, Left, Object, Severity};
pub use field_value::{DiskValue, FieldValue};
pub use finding_code::FindingCode;
pub(crate) use memory_text::memory_text;
pub use planned_secret::PlannedSecret;
pub use saved::{SavedPlan, SavedPlanError, has_same_steps};
pub use step::Step;
pub(crate) use step_graph::StepGraph;
pub use step_id::StepId;
pub use step_kind::*;

use serde::{Deserialize, Serialize};

use crate::sha256::sha256_hex;

/// A plan. `docs/PLAN-JSON.md` describes its JSON form.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Plan {
    /// The name of the cluster.
    pub cluster: String,
    pub changes: Vec<Change>,
    pub findings: Vec<Finding>,
    /// The steps. Each step comes after all steps that it depends on.
    pub steps: Vec<Step>,
}

impl Plan {
    /// Whether the plan has neither steps nor changes. Changes that the inventory ignores do not count.
    pub fn is_empty(&self) -> bool {
        let is_ignored = |change: &Change| change.left == Some(Left::Ignored);
        self.changes.iter().all(is_ignored) && self.steps.is_empty()
    }

    /// The errors that prevent the execution of the whole plan.
    pub fn blocking_errors(&self) -> impl Iterator<Item = &Finding> {
        self.errors().filter(|finding| !finding.blocks_only_its_node)
    }

    /// The errors that prevent only the steps of the nodes that they name.
    pub fn node_errors(&self) -> impl Iterator<Item = &Finding> {
        self.errors().filter(|finding| finding.blocks_only_its_node)
    }

    pub fn errors(&self) -> impl Iterator<Item = &Finding> {
        self.findings.iter().filter(|finding| finding.severity == Severity::Error)
    }

    /// The nodes whose VMs the run may reset, each with the maximum number of resets. The run creates all of these VMs.
    pub fn may_reset(&self) -> Vec<(&str, u32)> {
        let resets = self.steps.iter().filter_map(|step| match &step.action {
            Action::ApplyConfig(apply) if apply.resets > 0 => {
                Some((apply.node.name.as_str(), apply.resets))
            }
            _ => None,
        });
        resets.collect()
    }

    /// The SHA-256 of the JSON form. The JSON form contains the hashes of secrets, so a changed secret changes the
    /// fingerprint.
    pub fn fingerprint(&self) -> String {
        let form = serde_json::to_vec(self).expect("invariant: plans set no secret VM options");
        sha256_hex(&form)
    }

    /// Changes that no step makes.
    pub fn open_changes(&self) -> impl Iterator<Item = &Change> {
        self.changes.iter().filter(|change| !change.is_planned)
    }

    /// Changes that no step makes until the user acts. A second run of the same command does not make them either.
    pub fn left_changes(&self) -> impl Iterator<Item = &Change> {
        self.open_changes().filter(|change| change.left.is_none_or(Left::needs_the_user))
    }

    /// Whether a run of this plan leaves a change or a node until the user acts.
    pub fn is_partial(&self) -> bool {
        self.left_changes().next().is_some() || self.node_errors().next().is_some()
    }
}
