//! Lab in its own process with permanent state.
//!
//! The state is one consistent file that is replaced atomically, at most two seconds old: it
//! survives `kill -9` without the changes of these seconds. A real Proxmox cluster does not lose
//! confirmed changes. So the lab is killed only together with all runs that may rely on a change,
//! like in a power failure; a lost lock of a live run would not be a defect of talmox.

use std::fs;
use std::io::{self, BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

use serde_json::{Value, json};
use talmox_clock::Clock;

use super::inventory::HOSTS;

/// Speed of lab time relative to real time.
const SPEED: &str = "30";
/// Timeout for a save, several times the save interval of the lab.
const SAVED_WITHIN: Duration = Duration::from_secs(30);

pub(super) struct LabProcess {
    root: PathBuf,
    process: Option<Child>,
}

impl LabProcess {
    /// Creates a lab that is not started. Its state is in `state` of this directory, and `lab.json`
    /// contains its address.
    pub(super) fn new(root: &Path) -> Self {
        Self { root: root.to_owned(), process: None }
    }

    /// Starts the lab with `serve`, a command up to and including the inventory.
    pub(super) fn start(&mut self, mut serve: Command, seed: u64, faults: &str) -> io::Result<()> {
        fs::write(self.root.join("faults.yaml"), faults)?;
        let seed = seed.to_string();
        serve.args(["--format", "json", "--state", "state", "--speed", SPEED]);
        serve.args(["--seed", &seed, "--faults", "faults.yaml"]);
        let log = fs::File::options().create(true).append(true).open(self.root.join("lab.log"))?;
        let mut process = serve.stdout(Stdio::piped()).stderr(log).spawn()?;
        let output = process.stdout.take();
        self.process = Some(process);
        let output = output.ok_or_else(|| io::Error::other("the lab has no output"))?;
        let mut line = String::new();
        BufReader::new(output).read_line(&mut line)?;
        if line.is_empty() {
            return Err(io::Error::other(format!("the lab printed no output; faults:\n{faults}")));
        }
        fs::write(self.root.join("lab.json"), line)
    }

    /// Stops the lab gracefully, so that it saves its state.
    pub(super) fn stop(&mut self) {
        let Some(mut process) = self.process.take() else { return };
        let asked = Command::new("kill").arg(process.id().to_string()).status();
        if !asked.is_ok_and(|status| status.success()) {
            process.kill().ok();
        }
        process.wait().ok();
    }

    /// Kills the lab with `kill -9`. All runs must have ended.
    pub(super) fn kill(&mut self) {
        let Some(mut process) = self.process.take() else { return };
        process.kill().ok();
        process.wait().ok();
    }

    /// Waits until the saved state contains everything that happened before this call. The lab
    /// saves its time in each round before its state, so the state of the following round is newer
    /// than this call.
    pub(super) fn await_save(&self) -> io::Result<()> {
        let time = || fs::read(self.root.join("state/time.json"));
        let deadline = Clock::real().deadline(SAVED_WITHIN);
        for _ in 0..3 {
            let before = time()?;
            while time()? == before {
                if deadline.has_passed() {
                    return Err(io::Error::other("the lab does not save its state"));
                }
                thread::park_timeout(Duration::from_millis(50));
            }
        }
        Ok(())
    }

    /// Switches on all hosts, because a host that a fault switched off stays off after a restart of
    /// the lab.
    pub(super) fn switch_hosts_on(&self) -> io::Result<()> {
        let path = self.root.join("state/world.json");
        let mut saved: Value = serde_json::from_slice(&fs::read(&path)?)?;
        for host in HOSTS {
            saved["world"]["hosts"][host]["online"] = json!(true);
        }
        fs::write(path, serde_json::to_vec(&saved)?)
    }
}

impl Drop for LabProcess {
    fn drop(&mut self) {
        self.stop();
    }
}
