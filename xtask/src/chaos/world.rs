//! A lab, two folders that describe the same cluster, and what happens to them.

use std::fs;
use std::io::{self, BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

use serde_json::{Value, json};
use talmox_clock::{Chance, Clock};

use super::inventory::{HOSTS, Inventory};
use super::observer::Observer;
use super::{Tally, fault};
use crate::Problems;

/// Two checkouts, as if on two machines: folders side by side would be seen as two clusters of one inventory.
const FOLDERS: [&str; 2] = ["first/chaos", "second/chaos"];
const BYSTANDER: &str = "beside/bystander";
/// What the lab is made for: it has the hosts that an inventory names, and edits must not change them.
const SITE: &str = "site/chaos";
const SECRETS: &str = "secrets.sops.yaml";
/// How much faster than ours the lab's time passes.
const SPEED: &str = "30";
/// A run that takes longer is killed: with these timeouts of the inventory nothing takes so long.
const LONGEST_RUN: Duration = Duration::from_mins(1);

pub(super) struct World {
    talmox: PathBuf,
    seed: u64,
    root: PathBuf,
    inventory: Inventory,
    lab: Option<Child>,
    observer: Observer,
    is_kept: bool,
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
            root,
            inventory,
            lab: None,
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
        world.stop_lab();
        world.observer.remember_bystander(&Inventory::bystander().vmids())?;
        for folder in FOLDERS {
            world.observer.remember_secrets(&world.path(folder, SECRETS))?;
        }
        world.start_lab(&fault::draw(chance))?;
        Ok(world)
    }

    /// Some edit, one or two runs, killed or not, and a look at the state of the lab.
    pub(super) fn round(&mut self, chance: &mut Chance, tally: &mut Tally) -> Problems {
        match self.disturb(chance, tally) {
            Ok(()) => self.observer.look(),
            Err(error) => vec![format!("the round cannot be carried out: {error}")],
        }
    }

    fn disturb(&mut self, chance: &mut Chance, tally: &mut Tally) -> io::Result<()> {
        if chance.below(4) == 0 {
            self.stop_lab();
            if chance.below(2) == 0 {
                self.switch_hosts_on()?;
            }
            self.start_lab(&fault::draw(chance))?;
            tally.lab_restarts += 1;
        }
        let is_pair = chance.below(2) == 0;
        let which = usize::try_from(chance.below(2)).expect("one of two");
        let folders: &[&str] = if is_pair { &FOLDERS } else { &FOLDERS[which..=which] };
        for folder in folders {
            self.prepare(folder, chance, tally)?;
        }
        tally.pairs += u64::from(is_pair);
        let mut runs = Vec::new();
        for folder in folders {
            let is_killed = chance.below(3) > 0;
            let life =
                if is_killed { Duration::from_millis(chance.below(2_500)) } else { LONGEST_RUN };
            runs.push((*folder, self.spawn_up(folder)?, Clock::real().deadline(life)));
            tally.runs += 1;
            // The second begins while the first is somewhere in the middle.
            thread::park_timeout(Duration::from_millis(chance.below(500)));
        }
        let loses_folder = chance.below(6) == 0;
        while !runs.is_empty() {
            if loses_folder {
                self.remove_local_state(runs[0].0);
            }
            let mut left = Vec::new();
            for (folder, mut run, end) in runs {
                if run.try_wait()?.is_some() {
                    continue;
                }
                if !end.has_passed() {
                    left.push((folder, run, end));
                    continue;
                }
                run.kill()?;
                run.wait()?;
                tally.kills += 1;
            }
            runs = left;
            thread::park_timeout(Duration::from_millis(50));
        }
        Ok(())
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
        self.stop_lab();
        self.observer.look()
    }

    fn run_undisturbed(&mut self) -> io::Result<bool> {
        self.stop_lab();
        self.switch_hosts_on()?;
        self.start_lab("faults: []\n")?;
        self.write_inventory(FOLDERS[0], &self.inventory)?;
        for _ in 0..3 {
            if self.spawn_up(FOLDERS[0])?.wait()?.success() {
                return Ok(true);
            }
        }
        Ok(false)
    }

    pub(super) fn observations(&self) -> u64 {
        self.observer.observations()
    }

    pub(super) fn has_etcd(&self) -> bool {
        self.observer.has_etcd()
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

    fn spawn_up(&self, folder: &str) -> io::Result<Child> {
        let log = fs::File::options()
            .create(true)
            .append(true)
            .open(self.root.join(folder).with_extension("log"))?;
        let mut up = self.command(&["up", "--yes", "--inventory", folder, "--lab-at", "lab.json"]);
        up.stdout(log.try_clone()?).stderr(log).spawn()
    }

    fn start_lab(&mut self, faults: &str) -> io::Result<()> {
        fs::write(self.root.join("faults.yaml"), faults)?;
        let seed = self.seed.to_string();
        let mut serve = self.command(&["lab", "serve", "--inventory", SITE, "--format", "json"]);
        serve.args([
            "--state",
            "state",
            "--speed",
            SPEED,
            "--seed",
            &seed,
            "--faults",
            "faults.yaml",
        ]);
        let log = fs::File::options().create(true).append(true).open(self.root.join("lab.log"))?;
        let mut lab = serve.stdout(Stdio::piped()).stderr(log).spawn()?;
        let mut line = String::new();
        let output = lab.stdout.take().ok_or_else(|| io::Error::other("the lab has no output"))?;
        BufReader::new(output).read_line(&mut line)?;
        self.lab = Some(lab);
        if line.is_empty() {
            return Err(io::Error::other(format!("it said nothing; faults:\n{faults}")));
        }
        fs::write(self.root.join("lab.json"), line)
    }

    /// Ends the lab as a person would, so that it writes its state.
    fn stop_lab(&mut self) {
        let Some(mut lab) = self.lab.take() else { return };
        let asked = Command::new("kill").arg(lab.id().to_string()).status();
        if !asked.is_ok_and(|status| status.success()) {
            lab.kill().ok();
        }
        lab.wait().ok();
    }

    /// Hosts that a fault switched off stay off in a lab that is started again.
    fn switch_hosts_on(&self) -> io::Result<()> {
        let path = self.root.join("state/world.json");
        let mut saved: Value = serde_json::from_slice(&fs::read(&path)?)?;
        for host in HOSTS {
            saved["world"]["hosts"][host]["online"] = json!(true);
        }
        fs::write(path, serde_json::to_vec(&saved)?)
    }
}

impl Drop for World {
    fn drop(&mut self) {
        self.stop_lab();
        if !self.is_kept {
            fs::remove_dir_all(&self.root).ok();
        }
    }
}

/// A folder of our own below the temporary one.
fn new_folder() -> io::Result<PathBuf> {
    let made = Command::new("mktemp").arg("-d").output()?;
    if !made.status.success() {
        return Err(io::Error::other("mktemp failed"));
    }
    Ok(PathBuf::from(String::from_utf8_lossy(&made.stdout).trim()))
}
