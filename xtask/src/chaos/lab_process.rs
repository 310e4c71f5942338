//! The lab in a process of its own, whose state lasts.
//!
//! Its state is one consistent file that is replaced as a whole, at most two seconds old: it survives `kill -9`, without the
//! changes of these seconds. A real Proxmox cluster does not lose what it confirmed, so the lab is killed only together with all
//! runs that may rely on a change, as by a power cut; a lost lock of a living run would be no finding about talmox.

use std::fs;
use std::io::{self, BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

use serde_json::{Value, json};
use talmox_clock::Clock;

use super::inventory::HOSTS;

/// How much faster than the machine's the lab's time passes.
const SPEED: &str = "30";
/// Longer than the lab takes to write its state several times.
const SAVED_WITHIN: Duration = Duration::from_secs(30);

pub(super) struct LabProcess {
    root: PathBuf,
    process: Option<Child>,
}

impl LabProcess {
    /// One that is started later. Its state is in `state` of this folder, and `lab.json` says how to reach it.
    pub(super) fn new(root: &Path) -> Self {
        Self { root: root.to_owned(), process: None }
    }

    /// Starts it with `serve`, a command up to and with the inventory.
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
            return Err(io::Error::other(format!("it said nothing; faults:\n{faults}")));
        }
        fs::write(self.root.join("lab.json"), line)
    }

    /// Ends it as a person would, so that it writes its state.
    pub(super) fn stop(&mut self) {
        let Some(mut process) = self.process.take() else { return };
        let asked = Command::new("kill").arg(process.id().to_string()).status();
        if !asked.is_ok_and(|status| status.success()) {
            process.kill().ok();
        }
        process.wait().ok();
    }

    /// `kill -9`. The runs must be dead.
    pub(super) fn kill(&mut self) {
        let Some(mut process) = self.process.take() else { return };
        process.kill().ok();
        process.wait().ok();
    }

    /// Waits until its state has all that happened before this call. The lab writes its time in each round, right before its
    /// world; the world of the round after that was looked at later than now.
    pub(super) fn await_save(&self) -> io::Result<()> {
        let time = || fs::read(self.root.join("state/time.json"));
        let deadline = Clock::real().deadline(SAVED_WITHIN);
        for _ in 0..3 {
            let before = time()?;
            while time()? == before {
                if deadline.has_passed() {
                    return Err(io::Error::other("the lab does not write its state"));
                }
                thread::park_timeout(Duration::from_millis(50));
            }
        }
        Ok(())
    }

    /// Hosts that a fault switched off stay off in a lab that is started again.
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
