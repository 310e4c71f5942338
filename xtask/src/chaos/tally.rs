//! What a chaos run did, for its last lines.

use std::fmt;
use std::time::Duration;

/// Counts of one chaos run.
#[derive(Default)]
pub(super) struct Tally {
    pub(super) lives: u64,
    pub(super) ups: u64,
    pub(super) destroys: u64,
    pub(super) kills: Kills,
    pub(super) edits: u64,
    /// Two folders that ran at the same time.
    pub(super) pairs: u64,
    /// Pairs of which one ran `destroy` and the other `up`.
    pub(super) contested_destroys: u64,
    pub(super) lab_restarts: u64,
    pub(super) power_cuts: PowerCuts,
    pub(super) observations: u64,
    pub(super) bootstrapped: u64,
    /// etcd clusters that `destroy` ended.
    pub(super) ended: u64,
    /// etcd clusters that were made after an earlier one of the same life had ended.
    pub(super) made_again: u64,
    pub(super) settled: u64,
}

/// `kill -9` of single runs.
#[derive(Default)]
pub(super) struct Kills {
    /// The run was alive.
    pub(super) landed: u64,
    /// The run had ended by itself.
    pub(super) too_late: u64,
}

/// `kill -9` of the lab and of every run at once.
#[derive(Default)]
pub(super) struct PowerCuts {
    /// At least one run was alive.
    pub(super) in_runs: u64,
    pub(super) idle: u64,
}

/// One line, whatever was counted.
impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { kills, power_cuts, .. } = self;
        write!(
            f,
            "{} lives, {} runs of up and {} of destroy, {} pairs at once ({} destroy against up), {} edits; kill -9 of {} \
             living runs, {} too late; {} lab restarts; {} power cuts with living runs, {} without; {} observations, {} lives \
             with an etcd, {} etcd clusters ended by destroy, {} made after that, {} lives settled",
            self.lives,
            self.ups,
            self.destroys,
            self.pairs,
            self.contested_destroys,
            self.edits,
            kills.landed,
            kills.too_late,
            self.lab_restarts,
            power_cuts.in_runs,
            power_cuts.idle,
            self.observations,
            self.bootstrapped,
            self.ended,
            self.made_again,
            self.settled,
        )
    }
}

/// The times of violations, counted from the start of the chaos run.
#[derive(Default)]
pub(super) struct Violations {
    times: Vec<Duration>,
}

impl Violations {
    pub(super) fn add(&mut self, at: Duration) {
        self.times.push(at);
    }

    /// How many there were, how long ago the last one was, and the longest time without one.
    pub(super) fn summary(&self, now: Duration) -> String {
        let mut before = Duration::ZERO;
        let mut longest = Duration::ZERO;
        for at in self.times.iter().chain([&now]) {
            longest = longest.max(at.saturating_sub(before));
            before = *at;
        }
        let last = self.times.last().copied().unwrap_or_default();
        let since = now.saturating_sub(last);
        format!(
            "{} violations in {}; no violation for the last {}, longest time without one {}",
            self.times.len(),
            shown(now),
            shown(since),
            shown(longest)
        )
    }
}

fn shown(time: Duration) -> String {
    let seconds = time.as_secs();
    match (seconds / 3600, seconds / 60 % 60, seconds % 60) {
        (0, 0, seconds) => format!("{seconds}s"),
        (0, minutes, seconds) => format!("{minutes}m{seconds:02}s"),
        (hours, minutes, seconds) => format!("{hours}h{minutes:02}m{seconds:02}s"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_summary_says_how_long_ago_the_last_violation_was() {
        let mut violations = Violations::default();
        let at = Duration::from_secs;
        assert_eq!(
            violations.summary(at(3723)),
            "0 violations in 1h02m03s; no violation for the last 1h02m03s, longest time without one 1h02m03s"
        );
        violations.add(at(30));
        violations.add(at(100));
        assert_eq!(
            violations.summary(at(130)),
            "2 violations in 2m10s; no violation for the last 30s, longest time without one 1m10s"
        );
    }
}
