//! One walk: a lab with a cluster, and changes of the cluster until the first problem.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use serde_json::Value;
use talmox_clock::Chance;

use super::cluster::Cluster;
use super::fault;
use super::kube_user::KubeUser;
use super::user::User;
use crate::chaos::{HOSTS, LabProcess, new_folder};

/// Folder of the inventory, relative to the folder of the walk. It has a parent folder of its own, because sibling
/// folders would be two clusters of one inventory.
const FOLDER: &str = "own/walk";
/// Inventory that the lab is created from. It names all hosts, and is never edited.
const SITE: &str = "site/walk";
/// File to which the lab writes violated invariants.
const VIOLATIONS: &str = "violations.txt";
/// Vmid of a VM that no run may change.
const FOREIGN_VMID: u64 = 900;
/// Number of attempts after which a command must have succeeded. Faults of the lab can cause earlier attempts to fail.
const ATTEMPTS: usize = 5;
/// Maximum duration of a command in seconds of real time. With the timeouts of the inventory no command takes this long.
const MAX_SECONDS: &str = "240";
/// Arguments of `up` and `plan`.
const WORDS: [&str; 5] = ["--allow-removal", "--inventory", FOLDER, "--lab-at", "lab.json"];
/// One of so many changes is followed by a run that is killed.
const KILLED: u64 = 4;
/// Exit code of a run that left changes. It is a problem, because all changes of a walk can be made.
const LEFT_CHANGES: i32 = 3;

pub(super) struct RandomWalk {
    talmox: PathBuf,
    root: PathBuf,
    lab: LabProcess,
    user: Option<User>,
    foreign_vm: Value,
    cluster: Cluster,
    changes: Vec<String>,
    is_kept: bool,
}

impl RandomWalk {
    pub(super) fn start(
        talmox: &Path,
        seed: u64,
        edits: u64,
        chance: &mut Chance,
    ) -> io::Result<Self> {
        let root = new_folder()?;
        let mut walk = Self {
            talmox: talmox.to_owned(),
            lab: LabProcess::new(&root),
            root,
            user: None,
            foreign_vm: Value::Null,
            cluster: Cluster::draw(chance),
            changes: vec![],
            is_kept: false,
        };
        for folder in ["home", FOLDER, SITE] {
            fs::create_dir_all(walk.root.join(folder))?;
        }
        fs::write(walk.root.join(SITE).join("cluster.yaml"), Cluster::site().to_yaml())?;
        walk.write_inventory()?;
        let secrets = walk.talmox(&["secrets", "init", "--inventory", FOLDER])?;
        if !secrets.status.success() {
            return Err(io::Error::other(text(&secrets)));
        }
        let mut serve = walk.command(&walk.talmox);
        serve.args(["lab", "serve", "--inventory", SITE, "--violations", VIOLATIONS]);
        walk.lab.start(serve, seed, &fault::draw(edits, chance))?;
        let user = User::new(&walk.root)?;
        walk.foreign_vm = user.create_foreign_vm(HOSTS[0], FOREIGN_VMID)?;
        walk.user = Some(user);
        Ok(walk)
    }

    /// Makes changes, each followed by `up`. Stops at the first problem.
    pub(super) fn run(&mut self, edits: u64, chance: &mut Chance) -> Result<(), String> {
        self.settle()?;
        for nth in 1..=edits {
            let change = self.change(chance).map_err(|error| format!("cannot change: {error}"))?;
            println!("walk: {nth}/{edits}: {change}");
            self.changes.push(change);
            if chance.below(KILLED) == 0 {
                self.run_killed(chance).map_err(|error| error.to_string())?;
                self.check_violations()?;
            }
            self.settle()?;
        }
        self.lab.stop();
        self.check_violations()
    }

    pub(super) fn changes(&self) -> &[String] {
        &self.changes
    }

    /// Directory of the walk. After this call, the directory is not deleted at the end.
    pub(super) fn keep(&mut self) -> &Path {
        self.is_kept = true;
        &self.root
    }

    /// Edits the inventory, or changes a VM as a user of Proxmox would. Returns a description of the change.
    fn change(&mut self, chance: &mut Chance) -> io::Result<String> {
        let Some(user) = self.user.as_ref().filter(|_| chance.below(3) == 0) else {
            let change = self.cluster.edit(chance);
            self.write_inventory()?;
            return Ok(change);
        };
        let kind = chance.below(5);
        let machine = self.cluster.dispensable(chance);
        let name = &machine.name;
        Ok(match kind {
            0 => {
                user.stop(machine)?;
                format!("user stops {name}")
            }
            1 => {
                user.delete(machine)?;
                format!("user deletes {name}")
            }
            2 => {
                user.set(machine, "onboot", "0")?;
                format!("user sets onboot of {name}")
            }
            3 => {
                user.set(machine, "tags", "user")?;
                format!("user sets tags of {name}")
            }
            _ => {
                // Without a restart, the kubelet would not register the node again.
                let kubeconfig = self.root.join(FOLDER).join("kubeconfig");
                KubeUser::new(&self.root, &kubeconfig)?.delete_node(name)?;
                user.reset(machine)?;
                format!("user deletes the Node object of {name} and resets its VM")
            }
        })
    }

    /// Runs `up`, and kills it with SIGKILL after a random time.
    fn run_killed(&self, chance: &mut Chance) -> io::Result<()> {
        let tenths = 3 + chance.below(80);
        let limit = format!("{}.{}", tenths / 10, tenths % 10);
        let up = [&["up", "--yes"][..], &WORDS[..]].concat();
        println!("walk: the next run is killed after {limit} s");
        self.talmox_within(&["--signal=KILL", &limit], &up).map(|_| ())
    }

    /// Runs `up` until it succeeds, and checks the result.
    fn settle(&mut self) -> Result<(), String> {
        let up = [&["up", "--yes"][..], &WORDS[..]].concat();
        self.until_done(&up, Some(LEFT_CHANGES))?;
        // A fault can hit the requests of a plan, which then shows a node as not healthy. Real differences remain in the next plan.
        let plan = [&["plan", "--detailed-exitcode"][..], &WORDS[..]].concat();
        self.until_done(&plan, None)?;
        if let Some(user) = &self.user {
            let config = user.config(HOSTS[0], FOREIGN_VMID).map_err(|error| error.to_string())?;
            if config != self.foreign_vm {
                return Err(format!("the foreign VM {FOREIGN_VMID} changed: {config}"));
            }
        }
        self.check_violations()
    }

    /// Runs a command until it succeeds. The exit code `wrong` is reported as a problem without a retry.
    fn until_done(&self, words: &[&str], wrong: Option<i32>) -> Result<(), String> {
        let mut last = String::new();
        for _ in 0..ATTEMPTS {
            let done = self.talmox(words).map_err(|error| error.to_string())?;
            let said = text(&done);
            match done.status.code() {
                Some(0) => return Ok(()),
                Some(code) if Some(code) == wrong => {
                    return Err(format!("talmox {} exits with {code}:\n{said}", words[0]));
                }
                code => last = format!("talmox {} exits with {code:?}:\n{said}", words[0]),
            }
        }
        Err(last)
    }

    fn check_violations(&self) -> Result<(), String> {
        match fs::read_to_string(self.root.join(VIOLATIONS)) {
            Ok(lines) if lines.trim().is_empty() => Ok(()),
            Ok(lines) => Err(format!("violated invariants:\n{lines}")),
            Err(error) => Err(format!("{VIOLATIONS} cannot be read: {error}")),
        }
    }

    fn write_inventory(&self) -> io::Result<()> {
        fs::write(self.root.join(FOLDER).join("cluster.yaml"), self.cluster.to_yaml())
    }

    fn talmox(&self, words: &[&str]) -> io::Result<Output> {
        self.talmox_within(&[MAX_SECONDS], words)
    }

    /// Runs `talmox` with these arguments of `timeout`, and returns its output. The output is also added to the log of the
    /// walk.
    fn talmox_within(&self, limit: &[&str], words: &[&str]) -> io::Result<Output> {
        let mut command = self.command(Path::new("timeout"));
        let done = command.args(limit).arg(&self.talmox).args(words).output()?;
        let log = self.root.join("walk.log");
        let mut all = fs::read_to_string(&log).unwrap_or_default();
        all.push_str(&format!("$ talmox {}\n{}\n", words.join(" "), text(&done)));
        fs::write(log, all)?;
        Ok(done)
    }

    fn command(&self, program: &Path) -> Command {
        let mut command = Command::new(program);
        command.env_clear().env("PATH", "/usr/bin:/bin").env("HOME", self.root.join("home"));
        command.env("PROXMOX_TOKEN", "unused").current_dir(&self.root).stdin(Stdio::null());
        command
    }
}

impl Drop for RandomWalk {
    fn drop(&mut self) {
        self.lab.stop();
        if !self.is_kept {
            fs::remove_dir_all(&self.root).ok();
        }
    }
}

/// Stdout and stderr of a command.
fn text(done: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&done.stdout), String::from_utf8_lossy(&done.stderr))
}
