//! Lab in a process of its own, with saved state.
//!
//! The saved state is one consistent file that is replaced atomically. It is at most two seconds old, so a `kill -9` of
//! the lab loses the changes of these seconds. A real Proxmox cluster does not lose confirmed changes. So the lab is
//! killed only together with all runs that may rely on a change, as in a power failure. Otherwise a run could lose its
//! lock although talmox has no defect.

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
/// Timeout for a save of the lab. It is several times the save interval.
const SAVED_WITHIN: Duration = Duration::from_secs(30);

pub(crate) struct LabProcess {
    root: PathBuf,
    process: Option<Child>,
}

impl LabProcess {
    /// Creates a lab without starting it. The folder `state` in this directory has the state of the lab, and `lab.json`
    /// its addresses.
    pub(crate) fn new(root: &Path) -> Self {
        Self { root: root.to_owned(), process: None }
    }

    /// Starts the lab. `serve` is the command line up to and including the inventory.
    pub(crate) fn start(&mut self, mut serve: Command, seed: u64, faults: &str) -> io::Result<()> {
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

    /// Stops the lab with SIGTERM, so that it saves its state.
    pub(crate) fn stop(&mut self) {
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

    /// Waits until the saved state contains all changes before this call. Each time, the lab saves its clock before its
    /// state. So a save that starts after this call contains all these changes.
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

    /// Replaces the notes and the names of these VMs, as a user of Proxmox could, and keeps the tags. The lab must be
    /// stopped. Returns the earlier configs.
    pub(super) fn rename_vms(&self, vmids: &[u64]) -> io::Result<Vec<(u64, Value)>> {
        let mut before = vec![];
        self.edit_saved(|saved| {
            for vmid in vmids {
                if let Some(config) = config_of(saved, *vmid) {
                    before.push((*vmid, config.clone()));
                    config["description"] = json!("moved here by the operations team");
                    config["name"] = json!(format!("machine-{vmid}"));
                }
            }
        })?;
        Ok(before)
    }

    /// Restores the notes and names that [`Self::rename_vms`] replaced, for the VMs that still exist. The lab must be
    /// stopped.
    pub(super) fn restore_vms(&self, before: &[(u64, Value)]) -> io::Result<()> {
        self.edit_saved(|saved| {
            for (vmid, old) in before {
                if let Some(config) = config_of(saved, *vmid) {
                    config["description"] = old["description"].clone();
                    config["name"] = old["name"].clone();
                }
            }
        })
    }

    /// Switches all hosts on. A host that a fault switched off stays off after a restart of the lab.
    pub(super) fn switch_hosts_on(&self) -> io::Result<()> {
        self.edit_saved(|saved| {
            for host in HOSTS {
                saved["world"]["hosts"][host]["online"] = json!(true);
            }
        })
    }

    fn edit_saved(&self, edit: impl FnOnce(&mut Value)) -> io::Result<()> {
        let path = self.root.join("state/world.json");
        let mut saved: Value = serde_json::from_slice(&fs::read(&path)?)?;
        edit(&mut saved);
        fs::write(path, serde_json::to_vec(&saved)?)
    }
}

/// Config of a VM in the saved state. `None` if the VM does not exist.
fn config_of(saved: &mut Value, vmid: u64) -> Option<&mut Value> {
    saved.pointer_mut(&format!("/world/vms/{vmid}/config"))
}

impl Drop for LabProcess {
    fn drop(&mut self) {
        self.stop();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn renamed_vms_keep_their_tags_and_are_restored() {
        let made = Command::new("mktemp").arg("-d").output().unwrap();
        let root = PathBuf::from(String::from_utf8(made.stdout).unwrap().trim());
        fs::create_dir(root.join("state")).unwrap();
        let saved = root.join("state/world.json");
        let config = json!({"name": "cp-1", "description": "talmox/1 node=cp-1", "tags": "a;b"});
        let before = json!({"world": {"vms": {"311": {"config": config}}}});
        fs::write(&saved, before.to_string()).unwrap();
        let read = || serde_json::from_slice::<Value>(&fs::read(&saved).unwrap()).unwrap();
        let lab = LabProcess::new(&root);
        let old = lab.rename_vms(&[311, 312]).unwrap();
        let renamed = read();
        let config = &renamed["world"]["vms"]["311"]["config"];
        assert_eq!((&config["name"], &config["tags"]), (&json!("machine-311"), &json!("a;b")));
        assert!(!config["description"].to_string().contains("talmox"));
        assert!(read()["world"]["vms"]["312"].is_null(), "no VM is added");
        lab.restore_vms(&old).unwrap();
        assert_eq!(read(), before);
        fs::remove_dir_all(root).unwrap();
    }
}
