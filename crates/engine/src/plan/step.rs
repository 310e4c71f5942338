use std::fmt;

use serde::Serialize;

use super::Action;

/// The name of a step, such as `vm/talos-cp-01/create`: the same in every plan for the same thing.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(transparent)]
pub struct StepId(String);

impl StepId {
    pub fn new(id: impl Into<String>) -> Self {
        Self(id.into())
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for StepId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// One step: look, done already?, act, look again.
#[derive(Clone, Debug)]
pub struct Step {
    pub id: StepId,
    /// The node that it is about, if it is about one.
    pub node: Option<String>,
    pub action: Action,
    /// What must have been done before.
    pub after: Vec<StepId>,
}
