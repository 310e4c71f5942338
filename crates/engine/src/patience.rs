//! Waiting with a deadline and a reason that can be shown all the time.

use std::fmt;
use std::time::Duration;

use talmox_clock::{Clock, Deadline};
use talmox_talos_api::Look;

/// How long to wait, how often to look, and who hears why.
#[derive(Clone, Copy)]
pub struct Patience<'a> {
    pub clock: Clock,
    pub deadline: Deadline,
    pub pause: Duration,
    /// Hears the reason whenever it changes.
    pub tell: &'a (dyn Fn(&str) + Send + Sync),
}

/// Why a wait ended without what was waited for.
#[derive(Debug)]
pub enum Ended<E> {
    /// The time is up; what was still missing.
    Late(String),
    /// Waiting longer would not help.
    Failed(E),
}

impl Patience<'_> {
    /// Looks again and again until it is done. Which errors may pass is for `look` to say: those
    /// it makes a [`Look::NotYet`] of.
    pub async fn until<T, E>(
        &self,
        mut look: impl AsyncFnMut() -> Result<Look<T>, E>,
    ) -> Result<T, Ended<E>> {
        let mut told = String::new();
        loop {
            let reason = match look().await {
                Ok(Look::Done(found)) => return Ok(found),
                Ok(Look::NotYet(reason)) => reason,
                Err(error) => return Err(Ended::Failed(error)),
            };
            if reason != told {
                (self.tell)(&reason);
                told.clone_from(&reason);
            }
            if self.deadline.has_passed() {
                return Err(Ended::Late(reason));
            }
            self.clock.sleep(self.pause.min(self.deadline.left())).await;
        }
    }
}

impl fmt::Debug for Patience<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { deadline, pause, .. } = self;
        f.debug_struct("Patience").field("deadline", deadline).field("pause", pause).finish()
    }
}
