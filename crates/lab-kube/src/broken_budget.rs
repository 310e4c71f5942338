//! Report of pods whose eviction or deletion left a PodDisruptionBudget with too few healthy pods.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

type Observer = Arc<dyn Fn(&BrokenBudget) + Send + Sync>;

/// PodDisruptionBudget that has too few healthy pods after a healthy pod was evicted or deleted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BrokenBudget {
    pub namespace: String,
    pub budget: String,
    /// Name of the evicted or deleted pod.
    pub pod: String,
    pub healthy: u64,
    /// Number of healthy pods that the budget requires.
    pub required: u64,
}

/// Observers of the budgets of a store.
#[derive(Default)]
pub(crate) struct BudgetObservers(Mutex<Vec<Observer>>);

impl BudgetObservers {
    pub(crate) fn add(&self, observer: impl Fn(&BrokenBudget) + Send + Sync + 'static) {
        self.locked().push(Arc::new(observer));
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.locked().is_empty()
    }

    pub(crate) fn notify(&self, broken: &BrokenBudget) {
        let observers = self.locked().clone();
        for observer in observers {
            observer(broken);
        }
    }

    fn locked(&self) -> MutexGuard<'_, Vec<Observer>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for BudgetObservers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BudgetObservers").finish_non_exhaustive()
    }
}
