//! Saved plan: a plan that the user approved, and the fingerprint of the observed state that it was made for.
//!
//! The saved plan itself is never executed, because it contains no secrets. The plan is made again, and must be the
//! same.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::Plan;
use super::observed_fingerprint::observed_fingerprint;
use crate::observed::Observed;

/// Version of the JSON form, described in `docs/PLAN-JSON.md`.
const FORMAT: u32 = 2;

/// The content of a plan file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SavedPlan {
    format: u32,
    pub cluster: String,
    fingerprint: Fingerprints,
    pub plan: Plan,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Fingerprints {
    plan: String,
    observed: String,
}

/// Reason why a saved plan is not valid, or no longer valid.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SavedPlanError {
    #[error("the file is not a plan that this version of talmox saved")]
    Unreadable,
    #[error("the plan in the file does not match its fingerprint")]
    Edited,
    #[error("the plan was saved for the cluster {0}")]
    OtherCluster(String),
    #[error("the observed state has changed since the plan was saved")]
    ObservedChanged,
    #[error("the inventory has changed since the plan was saved")]
    InventoryChanged,
}

impl SavedPlan {
    pub fn of(plan: &Plan, observed: &Observed) -> Self {
        let fingerprint =
            Fingerprints { plan: plan.fingerprint(), observed: observed_fingerprint(observed) };
        Self { format: FORMAT, cluster: plan.cluster.clone(), fingerprint, plan: plan.clone() }
    }

    /// The text of the file.
    pub fn to_json(&self) -> String {
        let text = serde_json::to_string_pretty(self);
        text.expect("invariant: plans set no secret VM options") + "\n"
    }

    pub fn parse(text: &str) -> Result<Self, SavedPlanError> {
        let value: Value = serde_json::from_str(text).map_err(|_| SavedPlanError::Unreadable)?;
        if value.get("format") != Some(&json!(FORMAT)) {
            return Err(SavedPlanError::Unreadable);
        }
        let saved: Self = serde_json::from_value(value).map_err(|_| SavedPlanError::Unreadable)?;
        if saved.fingerprint.plan == saved.plan.fingerprint() {
            Ok(saved)
        } else {
            Err(SavedPlanError::Edited)
        }
    }

    /// Returns an error unless this plan and this observed state are the saved ones.
    pub fn check(&self, plan: &Plan, observed: &Observed) -> Result<(), SavedPlanError> {
        if self.cluster != plan.cluster {
            return Err(SavedPlanError::OtherCluster(self.cluster.clone()));
        }
        if self.fingerprint.observed != observed_fingerprint(observed) {
            return Err(SavedPlanError::ObservedChanged);
        }
        if self.plan == *plan { Ok(()) } else { Err(SavedPlanError::InventoryChanged) }
    }
}

/// Whether two plans have the same steps. Their changes and findings may differ.
pub fn has_same_steps(one: &Plan, other: &Plan) -> bool {
    one.steps == other.steps
}
