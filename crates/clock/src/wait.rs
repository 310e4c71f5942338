use std::fmt;
use std::time::Duration;

use crate::cancel::Cancel;
use crate::chance::Chance;
use crate::clock::{Clock, Deadline, Moment};
use crate::pausable_deadline::PausableDeadline;

/// Default pause between two checks.
const PAUSE: Duration = Duration::from_secs(1);

/// Start of each reported line.
const START: &str = "waiting for ";

/// Stage that may precede [`START`]: the awaited machine is known to boot.
const BOOTING: &str = "booting: ";

/// One wait for a condition. The caller checks the condition. While the condition is not met, the caller calls
/// [`Wait::not_yet`] with the answer of the check and checks again. The last check is at the deadline.
///
/// The wait itself composes the reported line from the awaited condition and the answer, so each line says what is awaited.
pub struct Wait<'a> {
    clock: Clock,
    /// The awaited condition, such as `etcd to start`.
    what: String,
    deadline: WaitDeadline,
    started: Moment,
    /// Time from the start of the wait to the deadline.
    time: Duration,
    pause: Pause,
    silence_limit: Option<Duration>,
    silent_since: Option<Moment>,
    cancel: Option<Cancel>,
    report: Option<Report<'a>>,
    reported: String,
}

/// Function that receives the line of a wait.
type Report<'a> = Box<dyn Fn(&str) + Send + Sync + 'a>;

/// Deadline of a wait.
#[derive(Clone, Debug)]
pub enum WaitDeadline {
    Fixed(Deadline),
    Pausable(PausableDeadline),
}

#[derive(Debug)]
enum Pause {
    Fixed(Duration),
    /// The pause is the time since the start of the wait, divided by `share`. Pauses do not prolong a short wait, and a
    /// long wait does not check all the time.
    Growing {
        share: u32,
        shortest: Duration,
        longest: Duration,
        chance: Chance,
        count: u64,
    },
}

/// Reason why a wait ended before its condition was met.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WaitError {
    TimedOut {
        /// The limit that was exceeded: the time of the whole wait, or the silence limit.
        after: Duration,
        /// Reason why the condition was not met at the last check.
        reason: String,
    },
    Cancelled,
}

impl<'a> Wait<'a> {
    /// A wait for `what`, such as `etcd to start`.
    pub fn new(clock: Clock, deadline: impl Into<WaitDeadline>, what: impl Into<String>) -> Self {
        let deadline = deadline.into();
        let (started, time) = (clock.moment(), deadline.left());
        Self {
            clock,
            what: what.into(),
            deadline,
            started,
            time,
            pause: Pause::Fixed(PAUSE),
            silence_limit: None,
            silent_since: None,
            cancel: None,
            report: None,
            reported: String::new(),
        }
    }

    /// Replaces the awaited condition.
    #[must_use]
    pub fn awaiting(self, what: impl Into<String>) -> Self {
        Self { what: what.into(), ..self }
    }

    /// Calls `report` with the line of the wait whenever the line changes: `waiting for etcd to start: no answer`.
    #[must_use]
    pub fn reporting(self, report: impl Fn(&str) + Send + Sync + 'a) -> Self {
        Self { report: Some(Box::new(report)), ..self }
    }

    #[must_use]
    pub fn cancelled_by(self, cancel: &Cancel) -> Self {
        Self { cancel: Some(cancel.clone()), ..self }
    }

    /// Pauses for `pause` between two checks.
    #[must_use]
    pub fn pausing(self, pause: Duration) -> Self {
        Self { pause: Pause::Fixed(pause), ..self }
    }

    /// Pauses for the time since the start of the wait, divided by `share`. The pause is at least `shortest` and at
    /// most `longest`, with jitter.
    #[must_use]
    pub fn pausing_longer(
        self,
        share: u32,
        shortest: Duration,
        longest: Duration,
        chance: Chance,
    ) -> Self {
        Self { pause: Pause::Growing { share, shortest, longest, chance, count: 0 }, ..self }
    }

    /// Ends the wait before the deadline if [`Wait::no_answer`] is called for `limit` without a [`Wait::not_yet`] in
    /// between.
    #[must_use]
    pub fn silence_limit(self, limit: Duration) -> Self {
        Self { silence_limit: Some(limit), ..self }
    }

    pub fn clock(&self) -> Clock {
        self.clock
    }

    /// Time left until the deadline.
    pub fn left(&self) -> Duration {
        self.deadline.left()
    }

    pub fn has_timed_out(&self) -> bool {
        self.left().is_zero()
    }

    /// Reports an answer without a pause.
    pub fn announce(&mut self, answer: &str) {
        let line = self.line(answer);
        if line == self.reported {
            return;
        }
        if let Some(report) = &self.report {
            report(&line);
        }
        self.reported = line;
    }

    /// Reports the awaited condition with the answer of the last check, and pauses until the next check. The answer may be
    /// empty. An answer that starts with `waiting for` names a part of the condition, and is reported alone.
    pub async fn not_yet(&mut self, answer: impl Into<String>) -> Result<(), WaitError> {
        self.silent_since = None;
        self.pause_for(answer.into()).await
    }

    fn line(&self, answer: &str) -> String {
        let after_stage = answer.strip_prefix(BOOTING).unwrap_or(answer);
        if after_stage.starts_with(START) {
            answer.to_owned()
        } else if answer.is_empty() {
            format!("{START}{}", self.what)
        } else {
            format!("{START}{}: {answer}", self.what)
        }
    }

    /// Reason for the error of a wait: the last answer, or the awaited condition if the answer is empty.
    fn reason(&self, answer: String) -> String {
        if answer.is_empty() { self.line(&answer) } else { answer }
    }

    /// Like [`Self::not_yet`], for a check that got no answer. The silence limit applies in addition to the deadline.
    pub async fn no_answer(&mut self, why: impl Into<String>) -> Result<(), WaitError> {
        let why = why.into();
        let since = *self.silent_since.get_or_insert_with(|| self.clock.moment());
        let silence = self.clock.moment().since(since);
        if let Some(limit) = self.silence_limit.filter(|limit| silence >= *limit) {
            return Err(WaitError::TimedOut { after: limit, reason: self.reason(why) });
        }
        self.pause_for(why).await
    }

    async fn pause_for(&mut self, answer: String) -> Result<(), WaitError> {
        if self.cancel.as_ref().is_some_and(Cancel::is_cancelled) {
            return Err(WaitError::Cancelled);
        }
        if self.has_timed_out() {
            return Err(WaitError::TimedOut { after: self.time, reason: self.reason(answer) });
        }
        self.announce(&answer);
        let pause = self.next_pause().min(self.left());
        let Some(cancel) = &self.cancel else {
            self.clock.sleep(pause).await;
            return Ok(());
        };
        tokio::select! {
            biased;
            () = cancel.cancelled() => Err(WaitError::Cancelled),
            () = self.clock.sleep(pause) => Ok(()),
        }
    }

    fn next_pause(&mut self) -> Duration {
        let passed = self.clock.moment().since(self.started);
        match &mut self.pause {
            Pause::Fixed(pause) => *pause,
            Pause::Growing { share, shortest, longest, chance, count } => {
                let pause = (passed / (*share).max(1)).clamp(*shortest, *longest);
                let jittered = chance.of("", *count).jitter(pause);
                *count += 1;
                jittered
            }
        }
    }
}

impl fmt::Debug for Wait<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { what, deadline, pause, reported, .. } = self;
        f.debug_struct("Wait")
            .field("what", what)
            .field("deadline", deadline)
            .field("pause", pause)
            .field("reported", reported)
            .finish_non_exhaustive()
    }
}

impl WaitDeadline {
    fn left(&self) -> Duration {
        match self {
            Self::Fixed(deadline) => deadline.left(),
            Self::Pausable(deadline) => deadline.left(),
        }
    }
}

impl From<Deadline> for WaitDeadline {
    fn from(deadline: Deadline) -> Self {
        Self::Fixed(deadline)
    }
}

impl From<PausableDeadline> for WaitDeadline {
    fn from(deadline: PausableDeadline) -> Self {
        Self::Pausable(deadline)
    }
}

impl WaitError {
    /// Reason why the condition was not met at the last check; empty if the wait was cancelled.
    pub fn reason(&self) -> &str {
        match self {
            Self::TimedOut { reason, .. } => reason,
            Self::Cancelled => "",
        }
    }
}

impl fmt::Display for WaitError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TimedOut { after, reason } => {
                write!(f, "timed out after {}", Written(*after))?;
                match reason.strip_prefix(START) {
                    Some(what) => write!(f, " {START}{what}"),
                    None => write!(f, ": {reason}"),
                }
            }
            Self::Cancelled => f.write_str("cancelled"),
        }
    }
}

impl std::error::Error for WaitError {}

/// Duration in the format of the inventory, in whole seconds: `5m`, `1h30m`, `1m30s`.
struct Written(Duration);

impl fmt::Display for Written {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = self.0.saturating_add(Duration::from_millis(500)).as_secs();
        let parts = [(seconds / 3600, "h"), (seconds / 60 % 60, "m"), (seconds % 60, "s")];
        for (count, unit) in parts.iter().filter(|(count, _)| *count > 0) {
            write!(f, "{count}{unit}")?;
        }
        if seconds == 0 { f.write_str("0s") } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Mutex;

    const WHAT: &str = "a node";

    #[tokio::test]
    async fn lines_are_reported_once_per_change_and_the_last_answer_is_kept() {
        let clock = Clock::scaled(1000.0);
        let reported = Mutex::new(vec![]);
        let report = |reason: &str| reported.lock().unwrap().push(reason.to_owned());
        let deadline = clock.deadline(Duration::from_hours(9));
        let mut wait = Wait::new(clock, deadline, WHAT).reporting(report);
        wait.announce("no disk");
        for reason in ["no disk", "no disk", "no address", "no disk"] {
            wait.not_yet(reason).await.unwrap();
        }
        let lines = ["no disk", "no address", "no disk"]
            .map(|answer| format!("waiting for a node: {answer}"));
        assert_eq!(*reported.lock().unwrap(), lines);
        let mut over = Wait::new(clock, clock.deadline(Duration::ZERO), WHAT).reporting(report);
        let error = over.not_yet("no address").await.unwrap_err();
        assert_eq!(error.reason(), "no address");
        assert_eq!(error.to_string(), "timed out after 0s: no address");
        assert_eq!(reported.lock().unwrap().len(), 3);
    }

    #[test]
    fn each_line_says_what_is_awaited() {
        let clock = Clock::real();
        let wait = Wait::new(clock, clock.deadline(Duration::ZERO), "a vote").awaiting(WHAT);
        for (answer, line) in [
            ("", "waiting for a node"),
            ("no answer", "waiting for a node: no answer"),
            ("node-1: waiting for its disk", "waiting for a node: node-1: waiting for its disk"),
            ("waiting for its disk", "waiting for its disk"),
            ("booting: waiting for its disk", "booting: waiting for its disk"),
            ("booting: no disk", "waiting for a node: booting: no disk"),
        ] {
            assert_eq!(wait.line(answer), line);
        }
        assert_eq!(wait.reason(String::new()), "waiting for a node");
    }

    #[tokio::test]
    async fn the_last_look_is_at_the_deadline() {
        let clock = Clock::scaled(1000.0);
        let deadline = clock.deadline(Duration::from_mins(10));
        let mut wait = Wait::new(clock, deadline, "etcd to start").pausing(Duration::from_hours(1));
        wait.not_yet("").await.unwrap();
        assert!(wait.has_timed_out());
        let error = wait.not_yet("").await.unwrap_err();
        assert!(error.to_string().ends_with(" waiting for etcd to start"), "{error}");
    }

    #[tokio::test]
    async fn silence_ends_a_wait_before_its_deadline_and_an_answer_ends_the_silence() {
        let clock = Clock::scaled(1000.0);
        let limit = Duration::from_mins(2);
        let mut wait = Wait::new(clock, clock.deadline(Duration::from_hours(9)), WHAT)
            .pausing(Duration::from_mins(3))
            .silence_limit(limit);
        wait.no_answer("silent").await.unwrap();
        wait.not_yet("slow").await.unwrap();
        wait.no_answer("silent").await.unwrap();
        let error = wait.no_answer("silent").await.unwrap_err();
        assert_eq!(error, WaitError::TimedOut { after: limit, reason: "silent".to_owned() });
        assert_eq!(error.to_string(), "timed out after 2m: silent");
    }

    #[tokio::test]
    async fn a_paused_deadline_does_not_end_a_wait() {
        let clock = Clock::scaled(1000.0);
        let deadline = PausableDeadline::new(clock, Duration::from_mins(10));
        let mut wait = Wait::new(clock, deadline.clone(), WHAT).pausing(Duration::from_hours(1));
        let pause = deadline.pause();
        clock.sleep(Duration::from_mins(11)).await;
        assert!(!wait.has_timed_out());
        drop(pause);
        wait.not_yet("slow").await.unwrap();
        wait.not_yet("slow").await.unwrap_err();
    }

    #[tokio::test]
    async fn a_cancelled_wait_ends_in_its_pause_and_before_the_next() {
        let clock = Clock::real();
        let cancel = Cancel::default();
        let deadline = clock.deadline(Duration::from_hours(1));
        let mut wait =
            Wait::new(clock, deadline, WHAT).pausing(Duration::from_hours(1)).cancelled_by(&cancel);
        let (ended, ()) = tokio::join!(wait.not_yet("slow"), async { cancel.cancel() });
        assert_eq!(ended, Err(WaitError::Cancelled));
        assert_eq!(wait.not_yet("slow").await, Err(WaitError::Cancelled));
    }

    #[tokio::test]
    async fn pauses_grow_with_the_time_that_has_passed() {
        let clock = Clock::scaled(1000.0);
        let (shortest, longest) = (Duration::from_secs(1), Duration::from_mins(1));
        let mut wait = Wait::new(clock, clock.deadline(Duration::from_hours(9)), WHAT)
            .pausing_longer(10, shortest, longest, Chance::even(1));
        assert!(wait.next_pause() < longest);
        clock.sleep(Duration::from_mins(10)).await;
        assert_eq!(wait.next_pause(), longest);
    }

    #[test]
    fn durations_are_written_as_in_the_inventory() {
        let written = |seconds| Written(Duration::from_secs(seconds)).to_string();
        assert_eq!([0, 30, 90, 300].map(written), ["0s", "30s", "1m30s", "5m"]);
        assert_eq!(written(5400), "1h30m");
        assert_eq!(Written(Duration::from_millis(299_999)).to_string(), "5m");
    }
}
