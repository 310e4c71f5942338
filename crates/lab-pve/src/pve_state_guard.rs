//! Access to the simulated state. Every change of the state is reported to observers.
//!
//! Observers are called while the state is still locked, so that they miss no change.

use std::fmt;
use std::future::Future;
use std::ops::{Deref, DerefMut};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::pve_state::{Caller, PveState};

type Observer = Arc<dyn Fn(&PveState, Option<&Caller>) + Send + Sync>;

tokio::task_local! {
    /// Caller whose request or task is being executed; `None` for work of the simulation itself.
    static CALLER: Option<Caller>;
}

/// Runs a request or task, and attributes its changes of the state to the caller. Work that it
/// spawns with [`spawn`] has the same caller.
pub(crate) fn made_by<F: Future>(caller: Caller, work: F) -> impl Future<Output = F::Output> {
    CALLER.scope(Some(caller), work)
}

/// Runs work of the simulation itself, whose changes of the state have no caller.
pub(crate) fn made_by_simulation<F: Future>(work: F) -> impl Future<Output = F::Output> {
    CALLER.scope(None, work)
}

/// Spawns work that continues the current request or task, with the same caller.
pub(crate) fn spawn(work: impl Future<Output = ()> + Send + 'static) {
    tokio::spawn(CALLER.scope(caller(), work));
}

/// Makes a change of the state and attributes it to this caller; `None` for a change by the
/// simulation itself.
pub(crate) fn attribute<T>(caller: Option<Caller>, change: impl FnOnce() -> T) -> T {
    CALLER.sync_scope(caller, change)
}

/// Caller whose request or task is being executed.
pub(crate) fn caller() -> Option<Caller> {
    CALLER.try_with(Option::clone).ok().flatten()
}

/// Observers of the simulated state.
#[derive(Default)]
pub(crate) struct PveStateObservers(Mutex<Vec<Observer>>);

impl PveStateObservers {
    pub(crate) fn add(
        &self,
        observer: impl Fn(&PveState, Option<&Caller>) + Send + Sync + 'static,
    ) {
        self.locked().push(Arc::new(observer));
    }

    fn notify(&self, pve_state: &PveState) {
        let observers = self.locked().clone();
        if observers.is_empty() {
            return;
        }
        let caller = caller();
        for observer in observers {
            observer(pve_state, caller.as_ref());
        }
    }

    fn locked(&self) -> MutexGuard<'_, Vec<Observer>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for PveStateObservers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PveStateObservers").finish_non_exhaustive()
    }
}

/// Locked simulated state. If the state was changed, observers are called before the lock is released.
#[derive(Debug)]
pub struct PveStateGuard<'s> {
    pve_state: MutexGuard<'s, PveState>,
    observers: &'s PveStateObservers,
    is_changed: bool,
}

impl<'s> PveStateGuard<'s> {
    pub(crate) fn new(
        pve_state: MutexGuard<'s, PveState>,
        observers: &'s PveStateObservers,
    ) -> Self {
        Self { pve_state, observers, is_changed: false }
    }
}

impl Deref for PveStateGuard<'_> {
    type Target = PveState;

    fn deref(&self) -> &PveState {
        &self.pve_state
    }
}

impl DerefMut for PveStateGuard<'_> {
    fn deref_mut(&mut self) -> &mut PveState {
        self.is_changed = true;
        &mut self.pve_state
    }
}

impl Drop for PveStateGuard<'_> {
    fn drop(&mut self) {
        if self.is_changed {
            self.observers.notify(&self.pve_state);
        }
    }
}
