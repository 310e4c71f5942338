//! Folder of a cluster, and a lab that keeps running when a run is killed.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{BufRead as _, BufReader};
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::time::Duration;

use serde_json::Value as Json;
use talmox_engine::kube::NodeFacts;
use talmox_talos_config::age::parse_identities;
use talmox_talos_config::secrets::Bundle;
use talmox_talos_config::sops;
use tempfile::TempDir;

use crate::lab_state::{LabState, NodeState, VmState};

const INVENTORY: &str = "\
talos_version: v1.11.2
network: {subnet: 10.0.0.0/24, gateway: 10.0.0.1, nameservers: [1.1.1.1], vip: 10.0.0.20}
proxmox: {endpoint: https://pve:8006, token: {secret: proxmox.token}, node: pve, pool: talos, vmid_range: 300-399}
timeouts: {task: 30m, image: 60m, boot: 60m, bootstrap: 60m, health: 60m}
controlplane:
  - {name: cp-1, ip: 10.0.0.11}
  - {name: cp-2, ip: 10.0.0.12}
  - {name: cp-3, ip: 10.0.0.13}
workers:
  - {name: wk-1, ip: 10.0.0.21}
  - {name: wk-2, ip: 10.0.0.22}
";
const NODES: [(&str, &str); 5] = [
    ("cp-1", "10.0.0.11"),
    ("cp-2", "10.0.0.12"),
    ("cp-3", "10.0.0.13"),
    ("wk-1", "10.0.0.21"),
    ("wk-2", "10.0.0.22"),
];
/// Speed of lab time relative to real time.
const SPEED: &str = "100";
pub(crate) const SECRETS: &str = "inventory/kept/secrets.sops.yaml";
pub(crate) const KEYS: &str = "home/.config/sops/age/keys.txt";

/// Point at which a run of `up` is killed.
#[derive(Clone, Copy, Debug)]
pub(crate) enum KillPoint {
    /// After this number of lines that report the start or end of a step.
    StepLines(usize),
    /// After this number of answered API calls that make a change.
    Changes(usize),
    /// When this file exists.
    FileExists(&'static str),
}

/// State of the cluster after a run.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct ClusterSnapshot {
    vms: BTreeMap<u32, VmState>,
    nodes: BTreeMap<&'static str, NodeState>,
    kubernetes: Vec<NodeFacts>,
    volumes: BTreeMap<String, u64>,
}

pub(crate) struct TestEnvironment {
    folder: TempDir,
    lab: Child,
}

impl TestEnvironment {
    /// Environment with secrets. All tests share the same secrets.
    pub(crate) fn start() -> Self {
        static SECRET: OnceLock<(String, String)> = OnceLock::new();
        let (secrets, keys) = SECRET.get_or_init(|| {
            let first = folder();
            let made = talmox(first.path()).args(["secrets", "init"]).output().unwrap();
            assert!(made.status.success(), "{made:?}");
            let read = |path: &str| fs::read_to_string(first.path().join(path)).unwrap();
            (read(SECRETS), read(KEYS))
        });
        let environment = Self::without_secrets();
        environment.write(SECRETS, secrets);
        environment.write(KEYS, keys);
        environment
    }

    /// Environment without secrets. The first run generates the secrets.
    pub(crate) fn without_secrets() -> Self {
        let folder = folder();
        let mut serve = talmox(folder.path());
        serve.args(["lab", "serve", "--format", "json", "--inventory", "inventory"]);
        serve.args(["--speed", SPEED, "--seed", "7", "--record", "record.jsonl"]);
        let mut lab = serve.stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(lab.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let environment = Self { folder, lab };
        environment.write("lab.json", &line);
        environment
    }

    pub(crate) fn read(&self, path: &str) -> String {
        fs::read_to_string(self.path(path)).unwrap()
    }

    fn write(&self, path: &str, text: &str) {
        let path = self.path(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    fn path(&self, path: &str) -> PathBuf {
        self.folder.path().join(path)
    }

    fn command(&self, words: &str) -> Command {
        let mut command = talmox(self.folder.path());
        command.args(words.split_whitespace()).args(["--lab-at", "lab.json"]);
        command
    }

    fn up(&self) -> Command {
        self.command("up --yes --format json")
    }

    /// Runs `up` until it ends, and returns the lines of its output.
    #[track_caller]
    pub(crate) fn up_to_the_end(&self) -> Vec<String> {
        let output = self.up().output().unwrap();
        let (out, err) = (text(&output.stdout), text(&output.stderr));
        assert!(output.status.success(), "{out}{err}");
        out.lines().map(str::to_owned).collect()
    }

    /// Runs `up` and kills it at this point.
    pub(crate) fn up_killed(&self, place: KillPoint) {
        let mut up = self.up();
        let reads_lines = matches!(place, KillPoint::StepLines(_));
        up.stdout(if reads_lines { Stdio::piped() } else { Stdio::null() }).stderr(Stdio::null());
        let mut process = up.spawn().unwrap();
        match place {
            KillPoint::StepLines(count) => {
                let lines = BufReader::new(process.stdout.take().unwrap()).lines();
                let reported = lines.map(Result::unwrap).filter(|line| is_of_step(line));
                assert_eq!(reported.take(count).count(), count, "{place:?}: it ended before");
            }
            KillPoint::Changes(count) => until(&mut process, || self.changes() >= count),
            KillPoint::FileExists(file) => until(&mut process, || self.path(file).exists()),
        }
        process.kill().unwrap();
        let status = process.wait().unwrap();
        assert_eq!(status.signal(), Some(9), "{place:?}: it ended before");
    }

    /// Number of answered API calls that make a change.
    pub(crate) fn changes(&self) -> usize {
        let record = fs::read_to_string(self.path("record.jsonl")).unwrap_or_default();
        record.lines().filter(|line| !line.contains(r#""method":"GET""#)).count()
    }

    /// Asserts that the plan is empty.
    #[track_caller]
    pub(crate) fn assert_settled(&self) {
        let plan = self.command("plan --detailed-exitcode").output().unwrap();
        assert_eq!(plan.status.code(), Some(0), "{}{}", text(&plan.stdout), text(&plan.stderr));
    }

    /// Reads the state of the cluster and asserts that etcd was bootstrapped once.
    #[track_caller]
    pub(crate) fn snapshot(&self) -> ClusterSnapshot {
        let keys = parse_identities(&self.read(KEYS)).unwrap();
        let secrets = sops::decrypt(&self.read(SECRETS), &keys).unwrap();
        let bundle = Bundle::from_node(&secrets.get("talos").unwrap()).unwrap();
        let lab_state =
            LabState::new(&serde_json::from_str(&self.read("lab.json")).unwrap(), bundle);
        let mut nodes: BTreeMap<&str, NodeState> = NODES
            .into_iter()
            .map(|(name, address)| (name, lab_state.node(address, name.starts_with("cp-"))))
            .collect();
        assert_is_bootstrapped_once(&nodes);
        // Random values are removed: the node that holds the VIP, and the IDs of the etcd members.
        for node in nodes.values_mut() {
            node.addresses.remove("10.0.0.20/32");
            let names: BTreeSet<String> = node.etcd.values().cloned().collect();
            node.etcd = names.into_iter().zip(1..).map(|(name, at)| (at, name)).collect();
        }
        let mut volumes = lab_state.volumes("pve", "local");
        volumes.extend(lab_state.volumes("pve", "local-lvm"));
        let kubernetes = lab_state.kubernetes("10.0.0.20");
        ClusterSnapshot { vms: lab_state.vms(), nodes, kubernetes, volumes }
    }
}

/// Asserts that all control planes have the same etcd members. A second bootstrap would create a second etcd cluster.
#[track_caller]
fn assert_is_bootstrapped_once(nodes: &BTreeMap<&str, NodeState>) {
    let known: BTreeSet<&BTreeMap<u64, String>> =
        ["cp-1", "cp-2", "cp-3"].into_iter().map(|name| &nodes[name].etcd).collect();
    assert_eq!(known.len(), 1, "{known:?}");
    let names: BTreeSet<&str> =
        known.iter().flat_map(|members| members.values()).map(String::as_str).collect();
    assert_eq!(names, ["cp-1", "cp-2", "cp-3"].into());
    let holders = nodes.values().filter(|node| node.addresses.contains("10.0.0.20/32")).count();
    assert_eq!(holders, 1, "one node holds the VIP");
}

impl ClusterSnapshot {
    /// Asserts that every node has one VM and that there are no other VMs.
    #[track_caller]
    pub(crate) fn assert_complete(&self) {
        assert_eq!(self.vms.keys().copied().collect::<Vec<_>>(), [300, 301, 302, 303, 304]);
        for (vm, (name, _)) in self.vms.values().zip(NODES) {
            let marker = format!(" node={name} stage=made");
            assert!(vm.is_running && vm.config["description"].contains(&marker), "{vm:#?}");
            assert_eq!((&*vm.config["name"], vm.pool.as_deref()), (name, Some("talos")));
        }
        let names = self.kubernetes.iter().map(|node| (node.name.as_str(), node.is_ready));
        assert_eq!(names.collect::<Vec<_>>(), NODES.map(|(name, _)| (name, true)));
    }
}

impl Drop for TestEnvironment {
    fn drop(&mut self) {
        self.lab.kill().ok();
        self.lab.wait().ok();
    }
}

/// Whether a line reports the start or end of a step. Every run has the same number of such lines.
pub(crate) fn is_of_step(line: &str) -> bool {
    let Ok(event) = serde_json::from_str::<Json>(line) else { return false };
    matches!(event["what"]["event"].as_str(), Some("step_started" | "step_ended"))
}

/// Waits until a condition is true or the process ends.
fn until(process: &mut Child, is_so: impl Fn() -> bool) {
    while !is_so() && process.try_wait().unwrap().is_none() {
        std::thread::park_timeout(Duration::from_millis(1));
    }
}

fn folder() -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    let inventory = folder.path().join("inventory/kept");
    fs::create_dir_all(&inventory).unwrap();
    fs::create_dir_all(folder.path().join("home")).unwrap();
    fs::write(inventory.join("cluster.yaml"), INVENTORY).unwrap();
    folder
}

/// Command that runs talmox with a home folder of its own.
fn talmox(folder: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_talmox"));
    command.env_clear().env("HOME", folder.join("home")).current_dir(folder);
    command
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}
