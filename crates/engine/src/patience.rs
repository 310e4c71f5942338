//! Waiting with a deadline and a reason that can be shown all the time.

use std::fmt;
use std::time::Duration;

use talmox_clock::{Clock, Deadline};

/// How long to wait, how often to look, and who hears why.
#[derive(Clone, Copy)]
pub struct Patience<'a> {
    pub clock: Clock,
    pub deadline: Deadline,
    pub pause: Duration,
    /// Hears the reason whenever it changes.
    pub tell: &'a (dyn Fn(&str) + Send + Sync),
}

/// One wait: whoever waits looks, and if it is not so yet, says why and is let go on.
#[derive(Debug)]
pub struct Waiting<'a> {
    patience: Patience<'a>,
    told: String,
}

/// The time is up.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the time is up, and still: {reason}")]
pub struct Late {
    /// What was missing at the last look.
    pub reason: String,
}

impl<'a> Patience<'a> {
    pub fn begin(self) -> Waiting<'a> {
        Waiting { patience: self, told: String::new() }
    }
}

impl Waiting<'_> {
    /// Waits a little before the next look; there is a last one when the time is just up.
    pub async fn not_yet(&mut self, reason: impl Into<String>) -> Result<(), Late> {
        let reason = reason.into();
        let Patience { clock, deadline, pause, tell } = self.patience;
        if deadline.has_passed() {
            return Err(Late { reason });
        }
        if reason != self.told {
            tell(&reason);
            self.told = reason;
        }
        clock.sleep(pause.min(deadline.left())).await;
        Ok(())
    }
}

impl fmt::Debug for Patience<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { deadline, pause, .. } = self;
        f.debug_struct("Patience").field("deadline", deadline).field("pause", pause).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Mutex;

    #[tokio::test]
    async fn reasons_are_told_once_and_the_last_one_is_kept() {
        let clock = Clock::scaled(1000.0);
        let told = Mutex::new(vec![]);
        let tell = |reason: &str| told.lock().unwrap().push(reason.to_owned());
        let (deadline, pause) = (clock.deadline(Duration::from_hours(9)), Duration::from_secs(1));
        let patience = Patience { clock, deadline, pause, tell: &tell };
        let mut wait = patience.begin();
        for reason in ["no disk", "no disk", "no address", "no disk"] {
            wait.not_yet(reason).await.unwrap();
        }
        assert_eq!(*told.lock().unwrap(), ["no disk", "no address", "no disk"]);
        let over = Patience { deadline: clock.deadline(Duration::ZERO), ..patience };
        let late = over.begin().not_yet("no address").await.unwrap_err();
        assert_eq!(late.to_string(), "the time is up, and still: no address");
        assert_eq!(told.lock().unwrap().len(), 3);
    }
}
