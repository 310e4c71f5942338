//! The lab, in a separate process.

use std::io::{BufRead as _, BufReader};
use std::net::{IpAddr, Ipv4Addr};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use serde_json::Value as Json;
use talmox_lab::pve::Profile;
use talmox_lab::{Lab, NodeSettings, Ready, Scenario, Settings};
use tokio::runtime::Runtime;

/// Profile of a lab, and the speed of its time.
#[derive(Clone, Copy)]
pub(crate) struct Pace {
    pub(crate) profile: &'static str,
    pub(crate) speed: f64,
}

pub(crate) const HOMELAB: &str = "homelab";
pub(crate) const INSTANT: &str = "instant";

const SCENARIO: &str = "scenario.yaml";
const RECORD: &str = "record";

/// Main function of the lab process. It prints the addresses of the lab, and ends when its input ends. The times of the lab
/// are not random, so that measured times can be compared with the times of the profile.
pub(crate) fn serve(folder: &Path, profile: &str, speed: f64, clusters: u8) {
    let runtime = Runtime::new().unwrap();
    let text = std::fs::read_to_string(folder.join(SCENARIO)).unwrap();
    let profile = if profile == HOMELAB { Profile::Homelab } else { Profile::Instant };
    let nodes = NodeSettings {
        networks: (0..clusters).map(|cluster| Ipv4Addr::new(10, 0, cluster, 0)).collect(),
        gateways: (0..clusters).map(|cluster| IpAddr::from([10, 0, cluster, 1])).collect(),
        ..NodeSettings::default()
    };
    let settings = Settings {
        scenario: Scenario::parse("bench", &text).unwrap(),
        profile,
        is_even: true,
        speed,
        record: Some(folder.join(RECORD)),
        nodes,
        ..Settings::default()
    };
    let lab = runtime.block_on(async { Lab::start(settings) }).unwrap();
    println!("{}", serde_json::to_string(&lab.ready()).unwrap());
    std::io::stdin().lines().for_each(drop);
}

pub(crate) struct Served {
    child: Child,
    folder: tempfile::TempDir,
    pub(crate) ready: Ready,
}

impl Served {
    pub(crate) fn start(scenario: &str, pace: Pace, clusters: u8) -> Self {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join(SCENARIO), scenario).unwrap();
        let mut child = Command::new(std::env::current_exe().unwrap())
            .arg("--serve")
            .arg(folder.path())
            .args([pace.profile.to_owned(), pace.speed.to_string(), clusters.to_string()])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        Self { child, folder, ready: serde_json::from_str(&line).unwrap() }
    }

    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Number of requests to Proxmox so far, without reads of tasks.
    pub(crate) fn requests(&self) -> usize {
        let text = std::fs::read_to_string(self.folder().join(RECORD)).unwrap_or_default();
        let lines = text.lines().map(|line| serde_json::from_str::<Json>(line).unwrap());
        lines.filter(|line| !line["path"].as_str().unwrap().contains("/tasks/")).count()
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        drop(self.child.stdin.take());
        // The process ends by itself, and its exit status does not matter.
        let _status = self.child.wait();
    }
}
