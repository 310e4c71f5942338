use std::fmt;
use std::future::Future;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Source of time, real or scaled. Clones show the same time.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    /// Creation time of this clock. `origin` is in the time of the machine, and `epoch` is in the time of this clock.
    origin: Instant,
    epoch: SystemTime,
    speed: f64,
}

/// Point in the time of a clock, relative to the creation of the clock. Monotonic.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Moment(Duration);

/// Moment on a clock at which a wait ends.
#[derive(Clone, Copy, Debug)]
pub struct Deadline {
    clock: Clock,
    at: Moment,
}

/// Error of a wait that reached its timeout.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Elapsed;

impl fmt::Display for Elapsed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("timed out")
    }
}

impl std::error::Error for Elapsed {}

impl Clock {
    /// Clock that shows the machine's real time.
    pub fn real() -> Self {
        Self::scaled(1.0)
    }

    /// Clock that runs `speed` times as fast as the clock of the machine, from now on.
    ///
    /// A speed of zero or below counts as 1, because waits on a stopped clock would never end.
    pub fn scaled(speed: f64) -> Self {
        #[expect(clippy::disallowed_methods, reason = "this is where time comes from")]
        let (origin, epoch) = (Instant::now(), SystemTime::now());
        let speed = if speed.is_finite() && speed > 0.0 { speed } else { 1.0 };
        Self { origin, epoch, speed }
    }

    /// Sets the clock forward to `earliest` (time since 1970) if the clock is behind. Times that were already observed
    /// then do not occur again.
    #[must_use]
    pub fn not_before(mut self, earliest: Duration) -> Self {
        let behind = earliest.saturating_sub(self.since_epoch());
        self.epoch = self.epoch.checked_add(behind).unwrap_or(self.epoch);
        self
    }

    pub fn speed(&self) -> f64 {
        self.speed
    }

    /// Time since the clock was created.
    pub fn moment(&self) -> Moment {
        let passed = self.origin.elapsed().as_secs_f64() * self.speed;
        Moment(Duration::try_from_secs_f64(passed).unwrap_or(Duration::MAX))
    }

    /// Current time as the duration since 1970.
    pub fn since_epoch(&self) -> Duration {
        let epoch = self.epoch.duration_since(UNIX_EPOCH).unwrap_or_default();
        epoch.saturating_add(self.moment().0)
    }

    /// Current time in seconds since 1970.
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

    /// Real time that corresponds to `time` on this clock.
    fn real_time(&self, time: Duration) -> Duration {
        Duration::try_from_secs_f64(time.as_secs_f64() / self.speed).unwrap_or(Duration::MAX)
    }
}

impl Moment {
    /// Time from `earlier` to this moment; zero if `earlier` is later.
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
    /// Time left until the deadline; zero after it.
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
    async fn a_scaled_clock_runs_faster() {
        let (real, fast) = (Clock::real(), Clock::scaled(1000.0));
        fast.sleep(Duration::from_secs(10)).await;
        assert!(fast.moment() >= Moment(Duration::from_secs(10)));
        assert!(real.moment() < Moment(Duration::from_secs(5)));
    }

    #[tokio::test]
    async fn deadlines_and_timeouts_expire() {
        let clock = Clock::scaled(1000.0);
        let deadline = clock.deadline(Duration::from_secs(5));
        assert!(!deadline.has_passed());
        let waited = clock.timeout(Duration::from_secs(6), std::future::pending::<()>()).await;
        assert_eq!(waited, Err(Elapsed));
        assert!(deadline.has_passed());
    }

    #[test]
    fn a_clock_is_set_forward_only() {
        let real = Clock::real();
        let ahead = real.since_epoch() + Duration::from_hours(24);
        assert!(real.not_before(ahead).since_epoch() >= ahead);
        let behind = real.since_epoch().saturating_sub(Duration::from_hours(24));
        let passed = real.not_before(behind).since_epoch().saturating_sub(real.since_epoch());
        assert!(passed < Duration::from_hours(1), "{passed:?}");
    }

    #[test]
    fn a_clock_with_speed_zero_runs_at_real_speed() {
        for speed in [0.0, -3.0, f64::NAN, f64::INFINITY] {
            assert!((Clock::scaled(speed).speed() - 1.0).abs() < f64::EPSILON);
        }
    }
}
