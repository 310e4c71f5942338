use std::fmt;
use std::future::Future;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Where time comes from. Clones tell the same time.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    /// When this clock was made, in the machine's time and in its own.
    origin: Instant,
    epoch: SystemTime,
    speed: f64,
}

/// A point in a clock's time, counted from when the clock was made. Never goes backwards.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Moment(Duration);

/// Until when something is waited for.
#[derive(Clone, Copy, Debug)]
pub struct Deadline {
    clock: Clock,
    at: Moment,
}

/// What was waited for did not come in time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Elapsed;

impl fmt::Display for Elapsed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the time is up")
    }
}

impl std::error::Error for Elapsed {}

impl Clock {
    /// The machine's own time.
    pub fn real() -> Self {
        Self::scaled(1.0)
    }

    /// Time that passes `speed` times as fast as the machine's, from now on.
    ///
    /// A speed that is not above zero is taken as 1: time always passes.
    pub fn scaled(speed: f64) -> Self {
        #[expect(clippy::disallowed_methods, reason = "this is where time comes from")]
        let (origin, epoch) = (Instant::now(), SystemTime::now());
        let speed = if speed.is_finite() && speed > 0.0 { speed } else { 1.0 };
        Self { origin, epoch, speed }
    }

    /// The same clock, set forward to `earliest` (since 1970) if it is behind: a time that somebody has seen
    /// already does not come again.
    #[must_use]
    pub fn not_before(mut self, earliest: Duration) -> Self {
        let behind = earliest.saturating_sub(self.since_epoch());
        self.epoch = self.epoch.checked_add(behind).unwrap_or(self.epoch);
        self
    }

    pub fn speed(&self) -> f64 {
        self.speed
    }

    /// How far this clock has come since it was made.
    pub fn moment(&self) -> Moment {
        let passed = self.origin.elapsed().as_secs_f64() * self.speed;
        Moment(Duration::try_from_secs_f64(passed).unwrap_or(Duration::MAX))
    }

    /// The time of day, as seconds and nanoseconds since 1970.
    pub fn since_epoch(&self) -> Duration {
        let epoch = self.epoch.duration_since(UNIX_EPOCH).unwrap_or_default();
        epoch.saturating_add(self.moment().0)
    }

    /// Seconds since 1970.
    pub fn unix(&self) -> u64 {
        self.since_epoch().as_secs()
    }

    pub async fn sleep(&self, time: Duration) {
        tokio::time::sleep(self.real_time(time)).await;
    }

    pub async fn sleep_until(&self, moment: Moment) {
        self.sleep(moment.0.saturating_sub(self.moment().0)).await;
    }

    pub fn deadline(&self, after: Duration) -> Deadline {
        Deadline { clock: *self, at: self.moment() + after }
    }

    /// Waits for `future`, at most for `time`.
    pub async fn timeout<F: Future>(
        &self,
        time: Duration,
        future: F,
    ) -> Result<F::Output, Elapsed> {
        tokio::time::timeout(self.real_time(time), future).await.map_err(|_| Elapsed)
    }

    /// How long the machine takes while `time` passes on this clock.
    fn real_time(&self, time: Duration) -> Duration {
        Duration::try_from_secs_f64(time.as_secs_f64() / self.speed).unwrap_or(Duration::MAX)
    }
}

impl Moment {
    /// The time from `earlier` to this; zero if that is later.
    pub fn since(self, earlier: Self) -> Duration {
        self.0.saturating_sub(earlier.0)
    }
}

impl std::ops::Add<Duration> for Moment {
    type Output = Self;

    fn add(self, time: Duration) -> Self {
        Self(self.0.saturating_add(time))
    }
}

impl Deadline {
    /// What is left; zero once it has passed.
    pub fn left(&self) -> Duration {
        self.at.since(self.clock.moment())
    }

    pub fn has_passed(&self) -> bool {
        self.left().is_zero()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_scaled_clock_runs_ahead_and_waits_less() {
        let (real, fast) = (Clock::real(), Clock::scaled(1000.0));
        fast.sleep(Duration::from_secs(10)).await;
        assert!(fast.moment() >= Moment(Duration::from_secs(10)));
        assert!(real.moment() < Moment(Duration::from_secs(5)));
    }

    #[tokio::test]
    async fn deadlines_pass_and_timeouts_end_waits() {
        let clock = Clock::scaled(1000.0);
        let deadline = clock.deadline(Duration::from_secs(5));
        assert!(!deadline.has_passed());
        let waited = clock.timeout(Duration::from_secs(6), std::future::pending::<()>()).await;
        assert_eq!(waited, Err(Elapsed));
        assert!(deadline.has_passed());
    }

    #[test]
    fn a_clock_is_set_forward_and_never_back() {
        let real = Clock::real();
        let ahead = real.since_epoch() + Duration::from_hours(24);
        assert!(real.not_before(ahead).since_epoch() >= ahead);
        let behind = real.since_epoch().saturating_sub(Duration::from_hours(24));
        let passed = real.not_before(behind).since_epoch().saturating_sub(real.since_epoch());
        assert!(passed < Duration::from_hours(1), "{passed:?}");
    }

    #[test]
    fn a_clock_that_would_stand_still_is_a_real_one() {
        for speed in [0.0, -3.0, f64::NAN, f64::INFINITY] {
            assert!((Clock::scaled(speed).speed() - 1.0).abs() < f64::EPSILON);
        }
    }
}
