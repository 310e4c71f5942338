//! A step of a plan.

use serde::{Deserialize, Serialize};

use super::step_id::StepId;
use super::step_kind::Action;

/// A step of a plan. The step reads the current state, and returns if there is nothing to do. Otherwise it acts and reads the
/// state again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Step {
    pub id: StepId,
    /// The node that the step belongs to. None for a step of the whole cluster.
    pub node: Option<String>,
    pub action: Action,
    /// The steps that must finish before this step starts.
    pub after: Vec<StepId>,
}
