//! A step of a plan.

use serde::{Deserialize, Serialize};

use super::step_id::StepId;
use super::step_kind::Action;

/// A step of a plan. Each one observes, returns if there is nothing to do, acts, and observes again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Step {
    pub id: StepId,
    /// The node of the step, if it has one.
    pub node: Option<String>,
    pub action: Action,
    /// The steps that must be done before this step starts.
    pub after: Vec<StepId>,
}
