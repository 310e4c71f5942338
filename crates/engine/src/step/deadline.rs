//! Until when a step must be done.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use talmox_clock::{Clock, Moment};

use crate::patience::LOOK;

/// A deadline that stands still while the step waits for its turn: how many are before it is none of its doing, and each of
/// them has a deadline of its own. Clones are the same one.
#[derive(Clone, Debug)]
pub struct StepDeadline {
    clock: Clock,
    state: Arc<Mutex<DeadlineState>>,
}

#[derive(Debug)]
struct DeadlineState {
    end: Moment,
    still_since: Option<Moment>,
}

impl StepDeadline {
    pub fn new(clock: Clock, time: Duration) -> Self {
        let state = DeadlineState { end: clock.moment() + time, still_since: None };
        Self { clock, state: Arc::new(Mutex::new(state)) }
    }

    /// What is left; zero once it has passed.
    pub fn left(&self) -> Duration {
        let state = self.state();
        state.end.since(state.still_since.unwrap_or_else(|| self.clock.moment()))
    }

    pub fn has_passed(&self) -> bool {
        self.left().is_zero()
    }

    /// Comes back once it has passed.
    pub(crate) async fn passed(&self) {
        while !self.has_passed() {
            // It may stand still meanwhile, with next to nothing left.
            self.clock.sleep(self.left().max(LOOK)).await;
        }
    }

    /// Stands still until what this gives is dropped.
    pub(super) fn stand_still(&self) -> Standstill<'_> {
        self.state().still_since = Some(self.clock.moment());
        Standstill(self)
    }

    fn state(&self) -> MutexGuard<'_, DeadlineState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// As long as this is kept, no time passes for the step.
#[derive(Debug)]
pub(super) struct Standstill<'a>(&'a StepDeadline);

impl Drop for Standstill<'_> {
    fn drop(&mut self) {
        let now = self.0.clock.moment();
        let mut state = self.0.state();
        if let Some(since) = state.still_since.take() {
            state.end = state.end + now.since(since);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn no_time_passes_while_it_stands_still() {
        let clock = Clock::scaled(1000.0);
        let deadline = StepDeadline::new(clock, Duration::from_hours(2));
        let still = deadline.stand_still();
        let left = deadline.left();
        clock.sleep(Duration::from_mins(3)).await;
        assert_eq!(deadline.left(), left);
        let before = clock.moment();
        drop(still);
        assert!(deadline.left() + clock.moment().since(before) >= left);
        let short = StepDeadline::new(clock, Duration::from_mins(1));
        short.passed().await;
        assert!(short.has_passed() && !deadline.has_passed());
    }
}
