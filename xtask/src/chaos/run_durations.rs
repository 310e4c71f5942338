//! Measured durations of earlier runs. The time of a kill is chosen by these durations, so that the kill happens before
//! the run ends.

use std::collections::BTreeMap;
use std::time::Duration;

use talmox_clock::Chance;

/// Number of durations kept for each kind of run.
const KEPT_DURATIONS: usize = 32;
/// Assumed duration of a run, until a run of the same kind has ended.
const FIRST_GUESS: Duration = Duration::from_secs(1);

/// Durations of the last runs by kind.
#[derive(Default)]
pub(super) struct RunDurations(BTreeMap<&'static str, Vec<Duration>>);

impl RunDurations {
    pub(super) fn ended(&mut self, kind: &'static str, took: Duration) {
        let known = self.0.entry(kind).or_default();
        if known.len() == KEPT_DURATIONS {
            known.remove(0);
        }
        known.push(took);
    }

    /// Random fraction of the duration of a random earlier run. An average duration is not useful: some runs are rejected
    /// within a second, and others create a cluster. A fraction of the average would be too late for short runs and too
    /// early for long runs.
    pub(super) fn draw(&self, kind: &str, chance: &mut Chance) -> Duration {
        let known = self.0.get(kind).map(Vec::as_slice).unwrap_or_default();
        let count = u64::try_from(known.len()).unwrap_or_default();
        let drawn = usize::try_from(chance.below(count)).unwrap_or_default();
        known.get(drawn).copied().unwrap_or(FIRST_GUESS).mul_f64(chance.share())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Durations for the test. One in ten is long.
    fn took(nth: u64) -> Duration {
        if nth.is_multiple_of(10) { Duration::from_secs(20) } else { Duration::from_millis(800) }
    }

    #[test]
    fn most_kills_hit_live_runs() {
        let (mut run_durations, mut chance) = (RunDurations::default(), Chance::new(1));
        let mut landed = 0;
        for nth in 0..1000 {
            landed += u32::from(run_durations.draw("up", &mut chance) < took(nth));
            run_durations.ended("up", took(nth));
        }
        assert!(landed > 800, "{landed}");
        let kills: Vec<Duration> =
            (0..400).map(|_| run_durations.draw("up", &mut chance)).collect();
        assert!(kills.iter().any(|kill| kill.as_secs() > 10), "long runs are killed late too");
        assert!(run_durations.draw("destroy", &mut chance) <= FIRST_GUESS);
    }
}
