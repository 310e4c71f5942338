//! Experiment: a lab, and two checkouts that describe the same cluster.

mod drill;

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use talmox_clock::{Chance, Clock};

use super::fault;
use super::inventory::Inventory;
use super::lab_process::LabProcess;
use super::observer::{CommandsRun, Observer};
use super::other_machine::OtherMachine;
use super::run::{Run, RunKind, RunState};
use super::run_durations::RunDurations;
use super::run_logs::RunLogs;
use super::statistics::Statistics;
use crate::Problems;
pub(super) use drill::{ClusterDrill, LiveDrill};

/// Folders of the two checkouts. They have different parent folders, because sibling folders would be two clusters of one
/// inventory.
const FOLDERS: [&str; 2] = ["first/chaos", "second/chaos"];
const FOREIGN_CLUSTER: &str = "foreign/foreign";
/// Inventory that the lab is created from. It names all hosts, and is never edited.
const SITE: &str = "site/chaos";
const SECRETS: &str = "secrets.sops.yaml";
/// Maximum number of saves of the lab to wait for, until the tasks of a `destroy` have ended.
const MAX_SAVES: usize = 5;
/// Interval between two checks of the processes.
const PAUSE: Duration = Duration::from_millis(10);

pub(super) struct Experiment {
    talmox: PathBuf,
    seed: u64,
    root: PathBuf,
    inventory: Inventory,
    lab: LabProcess,
    observer: Observer,
    run_logs: RunLogs,
    /// Machine of the second checkout. `None` if the second checkout is on the same machine as the first one.
    second_machine: Option<OtherMachine>,
    /// Options to simulate another machine. `None` if this system does not support it.
    other_machine: Option<OtherMachine>,
    clock: Clock,
    is_kept: bool,
}

/// Run of `talmox` that is planned for a round.
#[derive(Clone, Copy)]
struct Planned {
    folder: &'static str,
    kind: RunKind,
    /// Start time relative to the start of the round.
    after: Duration,
    /// Time from the start of the run until it is killed. `None` if the run is not killed.
    kill: Option<Duration>,
}

impl Experiment {
    /// Creates a lab with a second cluster that no run may change, and two copies of one inventory with the same secrets.
    pub(super) fn start(
        talmox: &Path,
        seed: u64,
        chance: &mut Chance,
        other_machine: Option<OtherMachine>,
    ) -> io::Result<Self> {
        let root = new_folder()?;
        let inventory = Inventory::draw(chance);
        // Only some experiments use another machine. After a kill, a run on another machine waits for the end of the
        // lease, so fewer runs fit into the time.
        let is_elsewhere = chance.below(4) == 0;
        let mut experiment = Self {
            talmox: talmox.to_owned(),
            seed,
            observer: Observer::new(&root.join("state")),
            run_logs: RunLogs::new(&root.join("run-logs"))?,
            second_machine: other_machine.clone().filter(|_| is_elsewhere),
            other_machine,
            lab: LabProcess::new(&root),
            root,
            inventory,
            clock: Clock::real(),
            is_kept: false,
        };
        for folder in FOLDERS.into_iter().chain([FOREIGN_CLUSTER, SITE]) {
            fs::create_dir_all(experiment.root.join(folder))?;
        }
        fs::create_dir(experiment.root.join("home"))?;
        experiment.write_inventory(SITE, &Inventory::site())?;
        experiment.write_inventory(FOREIGN_CLUSTER, &Inventory::foreign_cluster())?;
        experiment.write_inventory(FOLDERS[0], &experiment.inventory)?;
        experiment.write_inventory(FOLDERS[1], &experiment.inventory.reversed())?;
        experiment.run_to_end(&["secrets", "init", "--inventory", FOLDERS[0]])?;
        fs::copy(experiment.path(FOLDERS[0], SECRETS), experiment.path(FOLDERS[1], SECRETS))?;
        experiment.start_lab("faults: []\n")?;
        let up = ["up", "--yes", "--inventory", FOREIGN_CLUSTER, "--lab-at", "lab.json"];
        experiment.run_to_end(&up)?;
        experiment.lab.stop();
        experiment.observer.remember_foreign_cluster(&Inventory::foreign_cluster().vmids())?;
        for folder in FOLDERS {
            experiment.observer.remember_secrets(&experiment.path(folder, SECRETS))?;
        }
        experiment.start_lab(&fault::draw(chance))?;
        Ok(experiment)
    }

    /// Runs one round: edits, one or two runs that may be killed, and a check of the state of the lab.
    pub(super) fn round(
        &mut self,
        chance: &mut Chance,
        run_durations: &mut RunDurations,
        statistics: &mut Statistics,
    ) -> Problems {
        match self.run_commands(chance, run_durations, statistics) {
            Ok(since) => self.check(since),
            Err(error) => vec![format!("the round failed: {error}")],
        }
    }

    /// Checks the state of the lab and the run logs. All runs must have ended.
    fn check(&mut self, since: CommandsRun) -> Problems {
        let mut violations = self.observer.check(since);
        match self.keep_run_logs().and_then(|()| self.run_logs.check()) {
            Ok(interleaved) => violations.extend(interleaved),
            Err(error) => violations.push(format!("the run logs cannot be read: {error}")),
        }
        violations
    }

    fn keep_run_logs(&mut self) -> io::Result<()> {
        FOLDERS.into_iter().try_for_each(|folder| self.run_logs.keep(&self.root.join(folder)))
    }

    fn run_commands(
        &mut self,
        chance: &mut Chance,
        run_durations: &mut RunDurations,
        statistics: &mut Statistics,
    ) -> io::Result<CommandsRun> {
        if chance.below(4) == 0 {
            self.lab.stop();
            self.start_lab_again(chance)?;
            statistics.lab_restarts += 1;
        }
        let is_pair = chance.below(2) == 0;
        let which = usize::try_from(chance.below(2)).expect("one of two");
        let folders: &[&'static str] = if is_pair { &FOLDERS } else { &FOLDERS[which..=which] };
        let mut kinds = vec![];
        for folder in folders {
            self.prepare(folder, chance, statistics)?;
            kinds.push(if chance.below(5) == 0 { RunKind::Destroy } else { RunKind::Up });
        }
        let count = |kind| u64::from(kinds.contains(&kind));
        statistics.pairs += u64::from(is_pair);
        statistics.contested_destroys += count(RunKind::Destroy) * count(RunKind::Up);
        let power_cut =
            (chance.below(6) == 0).then(|| run_durations.draw(kinds[0].command(), chance));
        let loses_folder = chance.below(6) == 0;
        let mut waiting: Vec<Planned> = vec![];
        for (&folder, &kind) in folders.iter().zip(&kinds) {
            let kill = (chance.below(3) > 0).then(|| run_durations.draw(kind.command(), chance));
            // The second run starts while the first run is in progress.
            let after = if waiting.is_empty() {
                Duration::ZERO
            } else {
                run_durations.draw(kinds[0].command(), chance)
            };
            waiting.push(Planned { folder, kind, after, kill });
        }
        let began = self.clock.moment();
        let mut runs: Vec<Run> = vec![];
        while !(waiting.is_empty() && runs.is_empty()) {
            let now = self.clock.moment().since(began);
            if power_cut.is_some_and(|after| now >= after) {
                break;
            }
            for planned in waiting.extract_if(.., |planned| planned.after <= now) {
                runs.push(self.start_run(&planned, statistics)?);
            }
            if loses_folder && let Some(run) = runs.first() {
                self.remove_local_state(run.folder)?;
            }
            let mut left = Vec::new();
            for run in runs {
                if let RunState::Alive(run) = run.check(run_durations, statistics)? {
                    left.push(run);
                }
            }
            runs = left;
            thread::park_timeout(PAUSE);
        }
        if power_cut.is_some() {
            self.cut_power(runs, chance, statistics)?;
        }
        if !kinds.contains(&RunKind::Destroy) {
            return Ok(CommandsRun::Up);
        }
        // The deletions by `destroy` must be in the saved state now, because at the next check they would count as
        // violations. The Proxmox tasks of a killed run continue after the kill.
        for _ in 0..MAX_SAVES {
            self.lab.await_save()?;
            if !self.observer.has_running_harmful_task()? {
                break;
            }
        }
        Ok(CommandsRun::Destroy)
    }

    fn start_run(&self, planned: &Planned, statistics: &mut Statistics) -> io::Result<Run> {
        let Planned { folder, kind, kill, .. } = *planned;
        match kind {
            RunKind::Up => statistics.ups += 1,
            RunKind::Destroy => statistics.destroys += 1,
        }
        let machine = self.second_machine.as_ref().filter(|_| folder == FOLDERS[1]);
        statistics.elsewhere += u64::from(machine.is_some());
        let command = self.run_of(folder, kind, machine)?;
        Run::start(folder, kind, command, self.clock, kill)
    }

    /// Kills the runs and the lab at the same time, and restarts the lab from its saved state.
    fn cut_power(
        &mut self,
        mut runs: Vec<Run>,
        chance: &mut Chance,
        statistics: &mut Statistics,
    ) -> io::Result<()> {
        let mut killed = 0;
        for run in &mut runs {
            killed += u64::from(run.kill()?);
        }
        self.lab.kill();
        let counted = if killed > 0 {
            &mut statistics.power_cuts.in_runs
        } else {
            &mut statistics.power_cuts.idle
        };
        *counted += 1;
        self.start_lab_again(chance)
    }

    fn start_lab_again(&mut self, chance: &mut Chance) -> io::Result<()> {
        if chance.below(2) == 0 {
            self.lab.switch_hosts_on()?;
        }
        self.start_lab(&fault::draw(chance))
    }

    /// Changes a checkout between two runs.
    fn prepare(
        &mut self,
        folder: &str,
        chance: &mut Chance,
        statistics: &mut Statistics,
    ) -> io::Result<()> {
        match chance.below(3) {
            0 => {
                self.write_inventory(folder, &self.inventory.edited(chance))?;
                statistics.edits += 1;
            }
            1 => {
                let is_first = folder == FOLDERS[0];
                let inventory = &self.inventory;
                self.write_inventory(
                    folder,
                    &if is_first { inventory.clone() } else { inventory.reversed() },
                )?;
            }
            _ => {}
        }
        // In some rounds, the checkout becomes like a fresh clone.
        if chance.below(4) == 0 {
            self.clone_again(folder)?;
        }
        Ok(())
    }

    /// Removes all files that a run wrote to a checkout.
    fn clone_again(&mut self, folder: &str) -> io::Result<()> {
        self.remove_local_state(folder)?;
        for file in ["kubeconfig", "talosconfig"] {
            fs::remove_file(self.path(folder, file)).ok();
        }
        Ok(())
    }

    fn remove_local_state(&mut self, folder: &str) -> io::Result<()> {
        self.run_logs.keep(&self.root.join(folder))?;
        fs::remove_dir_all(self.path(folder, ".talmox")).ok();
        Ok(())
    }

    /// Switches all hosts on, removes all faults, restores the first inventory, and runs `up` until it ends.
    pub(super) fn settle(&mut self, statistics: &mut Statistics) -> Problems {
        match self.run_undisturbed() {
            Ok(is_settled) => statistics.settled += u64::from(is_settled),
            Err(error) => return vec![format!("the lab does not restart: {error}")],
        }
        self.lab.stop();
        self.check(CommandsRun::Up)
    }

    fn run_undisturbed(&mut self) -> io::Result<bool> {
        self.lab.stop();
        self.lab.switch_hosts_on()?;
        self.start_lab("faults: []\n")?;
        self.write_inventory(FOLDERS[0], &self.inventory)?;
        for _ in 0..3 {
            if self.run_of(FOLDERS[0], RunKind::Up, None)?.spawn()?.wait()?.success() {
                return Ok(true);
            }
        }
        Ok(false)
    }

    pub(super) fn observer(&self) -> &Observer {
        &self.observer
    }

    /// Directory of the experiment. After this call, the directory is not deleted at the end.
    pub(super) fn keep(&mut self) -> &Path {
        self.is_kept = true;
        &self.root
    }

    fn path(&self, folder: &str, file: &str) -> PathBuf {
        self.root.join(folder).join(file)
    }

    fn write_inventory(&self, folder: &str, inventory: &Inventory) -> io::Result<()> {
        fs::write(self.path(folder, "cluster.yaml"), inventory.to_yaml())
    }

    fn command(&self, words: &[&str]) -> Command {
        self.command_on(None, words)
    }

    /// Command that runs `talmox` on this machine, or on another machine if one is given.
    fn command_on(&self, machine: Option<&OtherMachine>, words: &[&str]) -> Command {
        let mut command = match machine {
            Some(machine) => machine.command(&self.talmox),
            None => Command::new(&self.talmox),
        };
        command.env_clear().env("HOME", self.root.join("home")).env("PROXMOX_TOKEN", "unused");
        command.args(words).current_dir(&self.root).stdin(Stdio::null());
        command
    }

    fn run_to_end(&self, words: &[&str]) -> io::Result<()> {
        let done = self.command(words).output()?;
        if done.status.success() {
            return Ok(());
        }
        let said = String::from_utf8_lossy(&done.stderr).into_owned();
        Err(io::Error::other(format!("talmox {}: {said}", words.join(" "))))
    }

    /// Command for a run in a checkout. Its output is written to a log file.
    fn run_of(
        &self,
        folder: &str,
        kind: RunKind,
        machine: Option<&OtherMachine>,
    ) -> io::Result<Command> {
        let words = [kind.command(), "--yes", "--inventory", folder, "--lab-at", "lab.json"];
        self.logged(folder, self.command_on(machine, &words))
    }

    /// Command whose output is appended to the log file of a checkout.
    fn logged(&self, folder: &str, mut command: Command) -> io::Result<Command> {
        let log = fs::File::options()
            .create(true)
            .append(true)
            .open(self.root.join(folder).with_extension("log"))?;
        command.stdout(log.try_clone()?).stderr(log);
        Ok(command)
    }

    fn start_lab(&mut self, faults: &str) -> io::Result<()> {
        let serve = self.command(&["lab", "serve", "--inventory", SITE]);
        self.lab.start(serve, self.seed, faults)
    }
}

impl Drop for Experiment {
    fn drop(&mut self) {
        self.lab.stop();
        if !self.is_kept {
            fs::remove_dir_all(&self.root).ok();
        }
    }
}

/// Creates a new temporary directory.
pub(crate) fn new_folder() -> io::Result<PathBuf> {
    let made = Command::new("mktemp").arg("-d").output()?;
    if !made.status.success() {
        return Err(io::Error::other("mktemp failed"));
    }
    Ok(PathBuf::from(String::from_utf8_lossy(&made.stdout).trim()))
}
