//! The steps of a run that did not get done, for those that wait for what they should have brought
//! about without being ordered behind them.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};

use crate::plan::StepId;

#[derive(Clone, Debug, Default)]
pub(crate) struct Undone(Arc<Mutex<BTreeSet<StepId>>>);

impl Undone {
    pub(crate) fn add(&self, step: StepId) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(step);
    }

    pub(super) fn has(&self, step: &StepId) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).contains(step)
    }
}
