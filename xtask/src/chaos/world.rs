//! A lab, two folders that describe the same cluster, and what happens to them.

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
use super::observer::{Observer, Since};
use super::pace::Pace;
use super::run::{Look, Run, RunKind};
use super::tally::Tally;
use crate::Problems;

/// Two checkouts, as if on two machines: folders side by side would be seen as two clusters of one inventory.
const FOLDERS: [&str; 2] = ["first/chaos", "second/chaos"];
const BYSTANDER: &str = "beside/bystander";
/// What the lab is made for: it has the hosts that an inventory names, and edits must not change them.
const SITE: &str = "site/chaos";
const SECRETS: &str = "secrets.sops.yaml";
/// How often the state of the lab is waited for until the tasks of a `destroy` have ended.
const MOST_SAVES: usize = 5;
/// Between two looks at the processes.
const PAUSE: Duration = Duration::from_millis(10);

pub(super) struct World {
    talmox: PathBuf,
    seed: u64,
    root: PathBuf,
    inventory: Inventory,
    lab: LabProcess,
    observer: Observer,
    clock: Clock,
    is_kept: bool,
}

/// A run of this round.
#[derive(Clone, Copy)]
struct Planned {
    folder: &'static str,
    kind: RunKind,
    /// When it starts, after the start of the round.
    after: Duration,
    /// How old it is when it is killed, if it is.
    kill: Option<Duration>,
}

impl World {
    /// A new lab with a second cluster that no run may touch, and two copies of one inventory with the same secrets.
    pub(super) fn start(talmox: &Path, seed: u64, chance: &mut Chance) -> io::Result<Self> {
        let root = new_folder()?;
        let inventory = Inventory::draw(chance);
        let mut world = Self {
            talmox: talmox.to_owned(),
            seed,
            observer: Observer::new(&root.join("state")),
            lab: LabProcess::new(&root),
            root,
            inventory,
            clock: Clock::real(),
            is_kept: false,
        };
        for folder in FOLDERS.into_iter().chain([BYSTANDER, SITE]) {
            fs::create_dir_all(world.root.join(folder))?;
        }
        fs::create_dir(world.root.join("home"))?;
        world.write_inventory(SITE, &Inventory::site())?;
        world.write_inventory(BYSTANDER, &Inventory::bystander())?;
        world.write_inventory(FOLDERS[0], &world.inventory)?;
        world.write_inventory(FOLDERS[1], &world.inventory.reversed())?;
        world.run_to_end(&["secrets", "init", "--inventory", FOLDERS[0]])?;
        fs::copy(world.path(FOLDERS[0], SECRETS), world.path(FOLDERS[1], SECRETS))?;
        world.start_lab("faults: []\n")?;
        let up = ["up", "--yes", "--inventory", BYSTANDER, "--lab-at", "lab.json"];
        world.run_to_end(&up)?;
        world.lab.stop();
        world.observer.remember_bystander(&Inventory::bystander().vmids())?;
        for folder in FOLDERS {
            world.observer.remember_secrets(&world.path(folder, SECRETS))?;
        }
        world.start_lab(&fault::draw(chance))?;
        Ok(world)
    }

    /// Some edit, one or two runs, killed or not, and a look at the state of the lab.
    pub(super) fn round(
        &mut self,
        chance: &mut Chance,
        pace: &mut Pace,
        tally: &mut Tally,
    ) -> Problems {
        match self.disturb(chance, pace, tally) {
            Ok(since) => self.observer.look(since),
            Err(error) => vec![format!("the round cannot be carried out: {error}")],
        }
    }

    fn disturb(
        &mut self,
        chance: &mut Chance,
        pace: &mut Pace,
        tally: &mut Tally,
    ) -> io::Result<Since> {
        if chance.below(4) == 0 {
            self.lab.stop();
            self.start_lab_again(chance)?;
            tally.lab_restarts += 1;
        }
        let is_pair = chance.below(2) == 0;
        let which = usize::try_from(chance.below(2)).expect("one of two");
        let folders: &[&'static str] = if is_pair { &FOLDERS } else { &FOLDERS[which..=which] };
        let mut kinds = vec![];
        for folder in folders {
            self.prepare(folder, chance, tally)?;
            kinds.push(if chance.below(5) == 0 { RunKind::Destroy } else { RunKind::Up });
        }
        let count = |kind| u64::from(kinds.contains(&kind));
        tally.pairs += u64::from(is_pair);
        tally.contested_destroys += count(RunKind::Destroy) * count(RunKind::Up);
        let power_cut = (chance.below(6) == 0).then(|| pace.draw(kinds[0].command(), chance));
        let loses_folder = chance.below(6) == 0;
        let mut waiting: Vec<Planned> = vec![];
        for (&folder, &kind) in folders.iter().zip(&kinds) {
            let kill = (chance.below(3) > 0).then(|| pace.draw(kind.command(), chance));
            // The second starts while the first is somewhere in the middle.
            let after = if waiting.is_empty() {
                Duration::ZERO
            } else {
                pace.draw(kinds[0].command(), chance)
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
                runs.push(self.start_run(&planned, tally)?);
            }
            if loses_folder && let Some(run) = runs.first() {
                self.remove_local_state(run.folder);
            }
            let mut left = Vec::new();
            for run in runs {
                if let Look::Lives(run) = run.look(pace, tally)? {
                    left.push(run);
                }
            }
            runs = left;
            thread::park_timeout(PAUSE);
        }
        if power_cut.is_some() {
            self.cut_power(runs, chance, tally)?;
        }
        if !kinds.contains(&RunKind::Destroy) {
            return Ok(Since::Up);
        }
        // What `destroy` ended must be seen now: at the next look nothing may have ended. The tasks of a run that was killed go
        // on without it.
        for _ in 0..MOST_SAVES {
            self.lab.await_save()?;
            if !self.observer.sees_harmful_task_run()? {
                break;
            }
        }
        Ok(Since::Destroy)
    }

    fn start_run(&self, planned: &Planned, tally: &mut Tally) -> io::Result<Run> {
        let Planned { folder, kind, kill, .. } = *planned;
        match kind {
            RunKind::Up => tally.ups += 1,
            RunKind::Destroy => tally.destroys += 1,
        }
        Run::start(folder, kind, self.run_of(folder, kind)?, self.clock, kill)
    }

    /// Kills the runs and the lab at once, and starts the lab again from what it had saved.
    fn cut_power(
        &mut self,
        mut runs: Vec<Run>,
        chance: &mut Chance,
        tally: &mut Tally,
    ) -> io::Result<()> {
        let mut killed = 0;
        for run in &mut runs {
            killed += u64::from(run.kill()?);
        }
        self.lab.kill();
        let counted =
            if killed > 0 { &mut tally.power_cuts.in_runs } else { &mut tally.power_cuts.idle };
        *counted += 1;
        self.start_lab_again(chance)
    }

    fn start_lab_again(&mut self, chance: &mut Chance) -> io::Result<()> {
        if chance.below(2) == 0 {
            self.lab.switch_hosts_on()?;
        }
        self.start_lab(&fault::draw(chance))
    }

    /// What happens to a folder between two runs.
    fn prepare(&self, folder: &str, chance: &mut Chance, tally: &mut Tally) -> io::Result<()> {
        match chance.below(3) {
            0 => {
                self.write_inventory(folder, &self.inventory.edited(chance))?;
                tally.edits += 1;
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
        // As in a fresh clone.
        if chance.below(4) == 0 {
            self.remove_local_state(folder);
            for file in ["kubeconfig", "talosconfig"] {
                fs::remove_file(self.path(folder, file)).ok();
            }
        }
        Ok(())
    }

    fn remove_local_state(&self, folder: &str) {
        fs::remove_dir_all(self.path(folder, ".talmox")).ok();
    }

    /// All hosts are on, nothing fails any more, and the inventory is the first one again.
    pub(super) fn settle(&mut self, tally: &mut Tally) -> Problems {
        match self.run_undisturbed() {
            Ok(is_settled) => tally.settled += u64::from(is_settled),
            Err(error) => return vec![format!("the lab does not start again: {error}")],
        }
        self.lab.stop();
        self.observer.look(Since::Up)
    }

    fn run_undisturbed(&mut self) -> io::Result<bool> {
        self.lab.stop();
        self.lab.switch_hosts_on()?;
        self.start_lab("faults: []\n")?;
        self.write_inventory(FOLDERS[0], &self.inventory)?;
        for _ in 0..3 {
            if self.run_of(FOLDERS[0], RunKind::Up)?.spawn()?.wait()?.success() {
                return Ok(true);
            }
        }
        Ok(false)
    }

    pub(super) fn observer(&self) -> &Observer {
        &self.observer
    }

    /// The folder with everything, which then stays.
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
        let mut command = Command::new(&self.talmox);
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

    /// A run in a folder, with a log beside it.
    fn run_of(&self, folder: &str, kind: RunKind) -> io::Result<Command> {
        let log = fs::File::options()
            .create(true)
            .append(true)
            .open(self.root.join(folder).with_extension("log"))?;
        let words = [kind.command(), "--yes", "--inventory", folder, "--lab-at", "lab.json"];
        let mut command = self.command(&words);
        command.stdout(log.try_clone()?).stderr(log);
        Ok(command)
    }

    fn start_lab(&mut self, faults: &str) -> io::Result<()> {
        let serve = self.command(&["lab", "serve", "--inventory", SITE]);
        self.lab.start(serve, self.seed, faults)
    }
}

impl Drop for World {
    fn drop(&mut self) {
        self.lab.stop();
        if !self.is_kept {
            fs::remove_dir_all(&self.root).ok();
        }
    }
}

/// A folder of its own below the temporary one.
fn new_folder() -> io::Result<PathBuf> {
    let made = Command::new("mktemp").arg("-d").output()?;
    if !made.status.success() {
        return Err(io::Error::other("mktemp failed"));
    }
    Ok(PathBuf::from(String::from_utf8_lossy(&made.stdout).trim()))
}
