//! Lab in a process of its own.

use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use talmox_lab::pve::{Action, Fault, Profile, When};
use talmox_lab::{Boot, Lab, NodeAction, Ready, Settings};
use talmox_talos_config::schematic::Schematic;
use tokio::runtime::Runtime;

/// Server process. It prints the address of the lab, and ends when its standard input is closed.
pub(crate) fn serve(folder: &Path, speed: f64) {
    let runtime = Runtime::new().unwrap();
    let schematic = Schematic::default();
    let known = folder.join("schematics");
    std::fs::create_dir_all(&known).unwrap();
    let file = known.join(format!("{}.yaml", schematic.id()));
    std::fs::write(file, schematic.to_yaml()).unwrap();
    let state = Some(folder.to_owned());
    let faults = vec![slow_apply(speed), no_stalls()];
    let settings =
        Settings { profile: Profile::Homelab, speed, state, faults, ..Settings::default() };
    let lab = runtime.block_on(async { Lab::start(settings) }).unwrap();
    println!("{}", serde_json::to_string(&lab.ready()).unwrap());
    std::io::stdin().lines().for_each(drop);
    runtime.block_on(lab.stop()).unwrap();
}

/// Time that every node takes to apply its config, in real time. It is long compared with the TLS handshakes on two cores. So
/// the benchmark shows whether the nodes are configured concurrently.
const APPLY: Duration = Duration::from_secs(4);

fn slow_apply(speed: f64) -> Fault {
    let when = When { talos: Some("ApplyConfiguration".to_owned()), ..When::default() };
    Fault { times: None, ..Fault::new(when, Action::Delay(APPLY.mul_f64(speed))) }
}

/// Fault rule that prevents random stalls, because the benchmark does not measure the resets that they need.
fn no_stalls() -> Fault {
    let when = When { boot: Some(Boot::Bare), ..When::default() };
    Fault { times: None, ..Fault::new(when, Action::Node(NodeAction::Stall(false))) }
}

pub(crate) struct LabProcess {
    child: Child,
    folder: Arc<tempfile::TempDir>,
    ready: Ready,
}

impl LabProcess {
    pub(crate) fn start(speed: f64) -> Self {
        Self::open(Arc::new(tempfile::tempdir().unwrap()), speed)
    }

    /// Restarts the lab at another speed. For the simulated hosts, this is a power failure.
    pub(crate) fn restart(self, speed: f64) -> Self {
        let folder = Arc::clone(&self.folder);
        drop(self);
        Self::open(folder, speed)
    }

    fn open(folder: Arc<tempfile::TempDir>, speed: f64) -> Self {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .arg("--serve")
            .arg(folder.path())
            .arg(speed.to_string())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        Self { child, folder, ready: serde_json::from_str(&line).unwrap() }
    }

    pub(crate) fn ready(&self) -> &Ready {
        &self.ready
    }

    /// Resident memory of the lab process in KiB.
    pub(crate) fn resident(&self) -> f64 {
        resident(&self.child.id().to_string()).unwrap()
    }
}

impl Drop for LabProcess {
    fn drop(&mut self) {
        drop(self.child.stdin.take());
        // The process ends because its standard input is closed. Its exit status does not matter.
        let _status = self.child.wait();
    }
}

/// Resident memory of a process in KiB; `None` if the process has ended.
pub(crate) fn resident(process: &str) -> Option<f64> {
    let text = std::fs::read_to_string(format!("/proc/{process}/status")).ok()?;
    let line = text.lines().find(|line| line.starts_with("VmRSS:"))?;
    line.split_whitespace().nth(1)?.parse().ok()
}
