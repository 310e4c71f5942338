//! Saved plan: a plan that the user approved, with the fingerprint of the observed state that the plan was made for.
//!
//! A saved plan is never executed, because it contains no secrets. Instead, talmox makes the plan again and compares it with
//! the saved plan.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::Plan;
use super::observed_fingerprint::observed_fingerprint;
use crate::observed::Observed;
use crate::planning::Scope;

/// Version of the JSON form, described in `docs/PLAN-JSON.md`.
const FORMAT: u32 = 2;

/// The content of a plan file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SavedPlan {
    format: u32,
    pub cluster: String,
    fingerprint: Fingerprints,
    /// Limits and consent that the plan was made with.
    #[serde(default, skip_serializing_if = "Scope::is_default")]
    pub scope: Scope,
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
        Self {
            format: FORMAT,
            cluster: plan.cluster.clone(),
            fingerprint,
            scope: Scope::default(),
            plan: plan.clone(),
        }
    }

    /// This saved plan, with the limits and the consent that it was made with.
    #[must_use]
    pub fn within(self, scope: &Scope) -> Self {
        Self { scope: scope.clone(), ..self }
    }

    /// The content of the plan file.
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

    /// Checks that `plan` and `observed` are the same as when this plan was saved.
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
