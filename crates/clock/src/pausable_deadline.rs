use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::clock::{Clock, Moment};

/// Minimum pause between two checks of whether a deadline has passed. It matters while a paused deadline has almost no
/// time left.
const RECHECK: Duration = Duration::from_secs(1);

/// Deadline that does not pass while it is paused. A step pauses its deadline while it waits for its turn, because the
/// steps before it have their own deadlines. Clones share one state.
#[derive(Clone, Debug)]
pub struct PausableDeadline {
    clock: Clock,
    state: Arc<Mutex<DeadlineState>>,
}

#[derive(Debug)]
struct DeadlineState {
    end: Moment,
    paused_since: Option<Moment>,
}

impl PausableDeadline {
    pub fn new(clock: Clock, time: Duration) -> Self {
        let state = DeadlineState { end: clock.moment() + time, paused_since: None };
        Self { clock, state: Arc::new(Mutex::new(state)) }
    }

    /// Time left; zero when the deadline has passed.
    pub fn left(&self) -> Duration {
        let state = self.state();
        state.end.since(state.paused_since.unwrap_or_else(|| self.clock.moment()))
    }

    pub fn has_passed(&self) -> bool {
        self.left().is_zero()
    }

    /// Returns when the deadline has passed.
    pub async fn passed(&self) {
        while !self.has_passed() {
            self.clock.sleep(self.left().max(RECHECK)).await;
        }
    }

    /// Pauses the deadline until the returned guard is dropped.
    pub fn pause(&self) -> DeadlinePause<'_> {
        self.state().paused_since = Some(self.clock.moment());
        DeadlinePause(self)
    }

    fn state(&self) -> MutexGuard<'_, DeadlineState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Guard that keeps a deadline paused until the guard is dropped.
#[derive(Debug)]
#[must_use]
pub struct DeadlinePause<'a>(&'a PausableDeadline);

impl Drop for DeadlinePause<'_> {
    fn drop(&mut self) {
        let now = self.0.clock.moment();
        let mut state = self.0.state();
        if let Some(since) = state.paused_since.take() {
            state.end = state.end + now.since(since);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_paused_deadline_does_not_pass() {
        let clock = Clock::scaled(1000.0);
        let deadline = PausableDeadline::new(clock, Duration::from_hours(2));
        let pause = deadline.pause();
        let left = deadline.left();
        clock.sleep(Duration::from_mins(3)).await;
        assert_eq!(deadline.left(), left);
        let before = clock.moment();
        drop(pause);
        assert!(deadline.left() + clock.moment().since(before) >= left);
        let short = PausableDeadline::new(clock, Duration::from_mins(1));
        short.passed().await;
        assert!(short.has_passed() && !deadline.has_passed());
    }
}
