//! Drills: simulated user actions that would do damage without the cluster lock, or without the check before the
//! bootstrap of etcd.

use std::fs;
use std::io;
use std::thread;
use std::time::Duration;

use talmox_clock::Chance;

use super::{Experiment, FOLDERS, PAUSE, SECRETS};
use crate::Problems;
use crate::chaos::observer::CommandsRun;
use crate::chaos::other_machine::OtherMachine;
use crate::chaos::run::{Run, RunKind};
use crate::chaos::run_durations::RunDurations;
use crate::chaos::statistics::Statistics;

/// Time after which another machine takes over a lock that is not renewed. It is real time, even in a lab.
const LEASE: Duration = Duration::from_mins(1);
/// Maximum time between the end of the lease and the moment when a paused run continues. The new holder of the lock makes
/// its changes in this time.
const AFTER_LEASE: Duration = Duration::from_secs(12);

/// Drill during a run. It takes up to two minutes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::chaos) enum LiveDrill {
    /// A user on a second machine runs `unlock` and then `up`, while a run is in progress.
    Unlock,
    /// A run is paused until another machine has taken over its lock, as on a laptop that sleeps.
    PausedRun,
}

/// Drill with a complete cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::chaos) enum ClusterDrill {
    /// The VMs get other names and notes in Proxmox, and the nodes get other names in the inventory.
    RenamedVms,
    /// The secrets file is lost.
    LostSecrets,
}

impl LiveDrill {
    /// Drill of the experiment with this seed. Half of the experiments have no drill during a run, because such a drill
    /// takes long.
    pub(in crate::chaos) fn of_seed(seed: u64) -> Option<Self> {
        match seed % 4 {
            1 => Some(Self::Unlock),
            2 => Some(Self::PausedRun),
            _ => None,
        }
    }
}

impl ClusterDrill {
    pub(in crate::chaos) fn of_seed(seed: u64) -> Self {
        if seed.is_multiple_of(2) { Self::LostSecrets } else { Self::RenamedVms }
    }
}

impl Experiment {
    /// Performs a drill during a run, and checks the result.
    pub(in crate::chaos) fn drill_live_run(
        &mut self,
        drill: LiveDrill,
        chance: &mut Chance,
        run_durations: &RunDurations,
        statistics: &mut Statistics,
    ) -> Problems {
        let drilled = match drill {
            LiveDrill::Unlock => self.unlock_live_run(chance, run_durations, statistics),
            LiveDrill::PausedRun => self.pause_run(chance, run_durations, statistics),
        };
        match drilled {
            Ok(()) => self.check(CommandsRun::Up),
            Err(error) => vec![format!("the drill {drill:?} failed: {error}")],
        }
    }

    /// Performs a drill with a complete cluster, and checks the result. The lab must be stopped before.
    pub(in crate::chaos) fn drill_complete_cluster(
        &mut self,
        drill: ClusterDrill,
        chance: &mut Chance,
        statistics: &mut Statistics,
    ) -> Problems {
        let drilled = match drill {
            ClusterDrill::RenamedVms => self.rename_vms(statistics),
            ClusterDrill::LostSecrets => self.lose_secrets(chance, statistics),
        };
        self.lab.stop();
        match drilled {
            Ok(mut violations) => {
                violations.extend(self.check(CommandsRun::Up));
                violations
            }
            Err(error) => vec![format!("the drill {drill:?} failed: {error}")],
        }
    }

    fn unlock_live_run(
        &self,
        chance: &mut Chance,
        run_durations: &RunDurations,
        statistics: &mut Statistics,
    ) -> io::Result<()> {
        let mut first = self.start_up(FOLDERS[0], None, statistics)?;
        thread::park_timeout(run_durations.draw(RunKind::Up.command(), chance));
        let is_live = first.is_alive()?;
        statistics.drills.unlocks += u64::from(is_live);
        statistics.drills.too_late += u64::from(!is_live);
        let words = ["unlock", "--yes", "--inventory", FOLDERS[1], "--lab-at", "lab.json"];
        let unlock = self.command_on(self.other_machine.as_ref(), &words);
        // `unlock` may fail, because the run is alive, or because of a fault of the lab.
        self.logged(FOLDERS[1], unlock)?.status()?;
        let second = self.start_up(FOLDERS[1], self.other_machine.as_ref(), statistics)?;
        second.wait(PAUSE)?;
        first.wait(PAUSE)?;
        Ok(())
    }

    fn pause_run(
        &self,
        chance: &mut Chance,
        run_durations: &RunDurations,
        statistics: &mut Statistics,
    ) -> io::Result<()> {
        let mut first = self.start_up(FOLDERS[0], None, statistics)?;
        thread::park_timeout(run_durations.draw(RunKind::Up.command(), chance));
        let is_paused = first.pause()?;
        statistics.drills.pauses += u64::from(is_paused);
        statistics.drills.too_late += u64::from(!is_paused);
        let mut second = self.start_up(FOLDERS[1], self.other_machine.as_ref(), statistics)?;
        // On the same machine, the second run is rejected at once, because the process of the paused run is alive.
        if is_paused && self.other_machine.is_some() {
            let until = self.clock.deadline(LEASE + AFTER_LEASE.mul_f64(chance.share()));
            while second.is_alive()? && !until.has_passed() {
                thread::park_timeout(PAUSE);
            }
        }
        first.resume()?;
        second.wait(PAUSE)?;
        first.wait(PAUSE)?;
        Ok(())
    }

    fn start_up(
        &self,
        folder: &'static str,
        machine: Option<&OtherMachine>,
        statistics: &mut Statistics,
    ) -> io::Result<Run> {
        statistics.ups += 1;
        statistics.elsewhere += u64::from(machine.is_some());
        let command = self.run_of(folder, RunKind::Up, machine)?;
        Run::start(folder, RunKind::Up, command, self.clock, None)
    }

    /// The VMs of the cluster lost their names and notes, and a fresh clone of the inventory has other nodes. `up` must
    /// not create a second etcd cluster.
    fn rename_vms(&mut self, statistics: &mut Statistics) -> io::Result<Problems> {
        let before = self.lab.rename_vms(&self.inventory.vmids())?;
        self.clone_again(FOLDERS[1])?;
        self.write_inventory(FOLDERS[1], &self.inventory.with_other_nodes())?;
        self.start_lab("faults: []\n")?;
        let is_up = self.start_up(FOLDERS[1], None, statistics)?.wait(PAUSE)?;
        statistics.drills.renamed += 1;
        self.lab.stop();
        self.lab.restore_vms(&before)?;
        let message = "`up` succeeded with other node names beside the VMs of the same cluster";
        Ok(is_up.then(|| message.to_owned()).into_iter().collect())
    }

    /// The secrets file is missing although the cluster exists. `up` must not generate new secrets.
    fn lose_secrets(
        &mut self,
        chance: &mut Chance,
        statistics: &mut Statistics,
    ) -> io::Result<Problems> {
        let (file, kept) = (self.path(FOLDERS[0], SECRETS), self.root.join("kept-secrets"));
        if chance.below(2) == 0 {
            self.clone_again(FOLDERS[0])?;
        }
        self.start_lab("faults: []\n")?;
        fs::rename(&file, &kept)?;
        let is_up = self.start_up(FOLDERS[0], None, statistics)?.wait(PAUSE)?;
        statistics.drills.lost_secrets += 1;
        let mut violations = vec![];
        if is_up {
            violations.push("`up` succeeded without the secrets of the cluster".to_owned());
        }
        if file.exists() {
            violations.push("`up` generated new secrets although the cluster exists".to_owned());
        }
        fs::rename(&kept, &file)?;
        Ok(violations)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The chaos test in CI has time for at least two experiments.
    #[test]
    fn two_experiments_contain_all_drills() {
        let live = [1, 2].map(LiveDrill::of_seed);
        assert_eq!(live, [Some(LiveDrill::Unlock), Some(LiveDrill::PausedRun)]);
        let complete = [1, 2].map(ClusterDrill::of_seed);
        assert_eq!(complete, [ClusterDrill::RenamedVms, ClusterDrill::LostSecrets]);
    }
}
