//! Failed and skipped steps of a run. A step that waits for the effect of another step without depending on it stops
//! waiting when that step is listed here.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};

use talmox_plan::plan::StepId;

#[derive(Clone, Debug, Default)]
pub(crate) struct UnfinishedSteps(Arc<Mutex<BTreeSet<StepId>>>);

impl UnfinishedSteps {
    pub(crate) fn add(&self, step: StepId) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(step);
    }

    pub(super) fn has(&self, step: &StepId) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).contains(step)
    }
}
