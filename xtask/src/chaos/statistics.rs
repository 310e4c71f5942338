//! Statistics of a chaos run.

use std::fmt;
use std::time::Duration;

/// Counters of a chaos run.
#[derive(Default)]
pub(super) struct Statistics {
    pub(super) experiments: u64,
    pub(super) ups: u64,
    pub(super) destroys: u64,
    pub(super) kills: Kills,
    pub(super) edits: u64,
    /// Number of times that two checkouts of the inventory had runs at the same time.
    pub(super) pairs: u64,
    /// Number of such pairs with one `destroy` and one `up`.
    pub(super) contested_destroys: u64,
    pub(super) lab_restarts: u64,
    pub(super) power_cuts: PowerCuts,
    pub(super) drills: Drills,
    /// Number of runs on a simulated other machine.
    pub(super) elsewhere: u64,
    pub(super) observations: u64,
    pub(super) bootstrapped: u64,
    /// Number of etcd clusters that `destroy` deleted.
    pub(super) ended: u64,
    /// Number of etcd clusters that were created after an earlier etcd cluster of the same experiment was deleted.
    pub(super) recreated: u64,
    pub(super) settled: u64,
}

/// Number of times that `kill -9` was sent to one run only, while the lab and other runs continued.
#[derive(Default)]
pub(super) struct Kills {
    /// Number of kills of a run that had not ended.
    pub(super) landed: u64,
    /// Number of kills that were too late, because the run had ended.
    pub(super) too_late: u64,
}

/// Number of times that the lab and all runs were killed together with `kill -9`.
#[derive(Default)]
pub(super) struct PowerCuts {
    /// Number of power cuts during at least one run.
    pub(super) in_runs: u64,
    pub(super) idle: u64,
}

/// Number of drills of each kind.
#[derive(Default)]
pub(super) struct Drills {
    /// Number of times that `unlock` ran from the second checkout during a run.
    pub(super) unlocks: u64,
    /// Number of runs that were paused for longer than their lease while the second checkout ran.
    pub(super) pauses: u64,
    /// Number of drills that were too late, because the run had ended before `unlock` or the pause.
    pub(super) too_late: u64,
    /// Number of times that `up` ran with other node names after the VMs were renamed in Proxmox.
    pub(super) renamed: u64,
    /// Number of times that `up` ran without the secrets file.
    pub(super) lost_secrets: u64,
}

/// Formats all counters in one line.
impl fmt::Display for Statistics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { kills, power_cuts, drills, .. } = self;
        write!(
            f,
            "{} experiments, {} runs of up and {} of destroy, {} pairs at once ({} destroy against up), {} edits; kill -9 of {} \
             live runs, {} too late; {} lab restarts; {} power cuts with live runs, {} without; {} runs as on another machine; {} times unlock during a run, \
             {} runs paused for longer than the lease, {} of both too late, {} times up after VMs were renamed in Proxmox, \
             {} times up without secrets; {} observations, {} experiments \
             with etcd data, {} etcd clusters deleted by destroy, {} created after that, {} experiments settled",
            self.experiments,
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
            self.elsewhere,
            drills.unlocks,
            drills.pauses,
            drills.too_late,
            drills.renamed,
            drills.lost_secrets,
            self.observations,
            self.bootstrapped,
            self.ended,
            self.recreated,
            self.settled,
        )
    }
}

/// Times of violations since the start of the chaos run.
#[derive(Default)]
pub(super) struct Violations {
    times: Vec<Duration>,
}

impl Violations {
    pub(super) fn add(&mut self, at: Duration) {
        self.times.push(at);
    }

    /// Number of violations, time since the last violation, and longest time without a violation.
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
    fn the_statistics_contain_the_drills() {
        let drills = Drills { unlocks: 1, pauses: 2, too_late: 3, renamed: 4, lost_secrets: 5 };
        let shown = Statistics { drills, elsewhere: 6, ..Statistics::default() }.to_string();
        let expected = "; 6 runs as on another machine; 1 times unlock during a run, 2 runs paused for longer than the \
                        lease, 3 of both too late, 4 times up after VMs were renamed in Proxmox, 5 times up without secrets; ";
        assert!(shown.contains(expected), "{shown}");
    }

    #[test]
    fn the_summary_contains_the_time_since_the_last_violation() {
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
