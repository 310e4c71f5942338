//! Steps of a run that failed or were skipped, for steps that wait for their effect without depending on them.

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
