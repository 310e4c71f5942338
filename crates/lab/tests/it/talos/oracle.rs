//! Tests of simulated nodes with the Go client of Talos.

use std::path::Path;
use std::process::Command;

use serde_json::{Value as Json, json};

use super::test_bed::{SCHEMATIC_ID, TestBed};

const VARIABLE: &str = "TALMOX_ORACLE_CLIENT";
const PLANE: u8 = 11;
const WORKER: u8 = 12;

/// Test bed, with the program of the Go client.
struct Oracle<'a> {
    bed: &'a TestBed,
    client: std::ffi::OsString,
    folder: tempfile::TempDir,
}

impl<'a> Oracle<'a> {
    /// Finds the program. Without the environment variable, prints a note and returns `None`.
    fn find(bed: &'a TestBed) -> Option<Self> {
        #[expect(
            clippy::disallowed_methods,
            reason = "programs from elsewhere are named by variables"
        )]
        let (client, ci) = (std::env::var_os(VARIABLE), std::env::var_os("CI"));
        let Some(client) = client else {
            assert_ne!(ci.as_deref(), Some("true".as_ref()), "{VARIABLE} is not set");
            let skipped =
                format!("SKIPPED: {VARIABLE} is not set, Talos's own client saw no lab\n");
            std::io::Write::write_all(&mut std::io::stderr(), skipped.as_bytes()).unwrap();
            return None;
        };
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("talosconfig"), bed.talosconfig().expose()).unwrap();
        for (number, is_control_plane) in [(PLANE, true), (WORKER, false)] {
            let config = bed.config(number, is_control_plane);
            std::fs::write(folder.path().join(format!("{number}.yaml")), config.expose()).unwrap();
        }
        Some(Self { bed, client, folder })
    }

    fn path(&self, name: &str) -> String {
        Path::display(&self.folder.path().join(name)).to_string()
    }

    fn start(&self, number: u8) -> Command {
        let mut command = Command::new(&self.client);
        let name = format!("node-{number}");
        let address = self.bed.loopback(number);
        command.args(["--address", &address, "--node-name", &name, "--timeout", "90s"]);
        command
    }

    /// Runs steps as an administrator, and returns the output of each step. All steps must succeed.
    fn admin(&self, number: u8, line: &str) -> Vec<Json> {
        let mut command = self.start(number);
        command.args(["--talosconfig", &self.path("talosconfig"), "--out", &self.path("")]);
        run(command.args(line.split_whitespace()))
    }

    /// Runs steps without a client certificate.
    fn anonymous(&self, number: u8, line: &str) -> Vec<Json> {
        let mut command = self.start(number);
        command.args(["--insecure", "--config", &self.path(&format!("{number}.yaml"))]);
        run(command.args(line.split_whitespace()))
    }

    /// Creates a cluster of two nodes that are in maintenance mode.
    fn make_cluster(&self) {
        for number in [PLANE, WORKER] {
            self.anonymous(number, "wait-maintenance apply");
        }
        self.admin(PLANE, "until=version until=bootstrap wait-ready");
        self.admin(WORKER, "until=version wait-ready");
    }
}

fn run(command: &mut Command) -> Vec<Json> {
    let output = command.output().unwrap();
    let lines = String::from_utf8(output.stdout).unwrap();
    let problem = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}\n{lines}{problem}");
    lines.lines().map(|line| serde_json::from_str::<Json>(line).unwrap()["saw"].take()).collect()
}

/// Ids of resources.
fn ids(resources: &Json) -> Vec<&str> {
    resources.as_array().unwrap().iter().map(|found| found["id"].as_str().unwrap()).collect()
}

fn reads_resources(oracle: &Oracle<'_>, version: &str) {
    let saw = oracle.admin(
        PLANE,
        "version machine services disks get=members get=machinestatus get=services members",
    );
    assert_eq!(saw[0], json!({"tag": version, "arch": "amd64", "platform": "nocloud"}));
    assert_eq!(saw[1], json!({"stage": "running", "ready": true, "unmet": null}));
    for service in ["apid", "etcd", "kubelet", "machined", "trustd"] {
        assert_eq!(saw[2][service], "Running healthy", "{service}: {}", saw[2]);
        assert!(ids(&saw[6]).contains(&service), "{service}: {}", saw[6]);
    }
    assert_eq!(saw[3]["/dev/sda"], 20_u64 << 30);
    assert_eq!(ids(&saw[4]), ["node-11", "node-12"]);
    assert_eq!(saw[4][1]["spec"]["machineType"], "worker");
    assert_eq!(saw[4][0]["spec"]["operatingSystem"], format!("Talos ({version})"));
    assert_eq!(saw[5][0]["spec"]["stage"], "running");
    assert_eq!(saw[7]["node-11"]["peers"], json!(["https://10.0.0.11:2380"]));
    assert_eq!(saw[7]["node-11"]["learner"], false);

    // The resources are requested by aliases that only the node can resolve, and through the control-plane node.
    let saw = oracle.admin(PLANE, "get=nodename get=hostname get=addresses get=disks get=rd");
    assert_eq!(saw[0][0]["spec"]["nodename"], "node-11");
    assert_eq!(saw[1][0]["spec"]["hostname"], "node-11");
    assert!(ids(&saw[2]).contains(&"eth0/10.0.0.11/24"), "{}", saw[2]);
    assert!(ids(&saw[3]).contains(&"sda"), "{}", saw[3]);
    let saw = oracle.admin(PLANE, "--node 10.0.0.12 version get=nodename");
    assert_eq!(saw[1][0]["spec"]["nodename"], "node-12");
}

fn reads_kubeconfig_snapshot_and_events(oracle: &Oracle<'_>) {
    let saw = oracle.admin(PLANE, "kubeconfig snapshot events");
    let wanted =
        json!({"cluster": "home", "server": "https://10.0.0.11:6443", "user": "admin@home"});
    assert_eq!(saw[0], wanted);
    assert!(saw[1]["bytes"].as_u64().unwrap() > 32, "{}", saw[1]);
    let events = saw[2].as_array().unwrap();
    let has = |kind: &str, text: &str| {
        events.iter().any(|event| {
            event["type"].as_str().unwrap().ends_with(kind)
                && event["text"].as_str().unwrap().contains(text)
        })
    };
    assert!(has("ServiceStateEvent", "etcd"), "{events:#?}");
    assert!(has("MachineStatusEvent", "RUNNING"), "{events:#?}");
    assert!(has("SequenceEvent", "boot"), "{events:#?}");
    assert!(has("PhaseEvent", "startEverything"), "{events:#?}");
    assert!(has("TaskEvent", "mountEphemeralPartition"), "{events:#?}");

    let health = "--control-planes 10.0.0.11 --workers 10.0.0.12 health";
    let said = oracle.admin(PLANE, health);
    let last = said[0].as_array().unwrap().last().unwrap();
    assert_eq!(last, "waiting for all k8s nodes to report schedulable: OK");
}

fn upgrades(oracle: &Oracle<'_>, step: &str, version: &str) {
    // Since 1.10, each platform has an installer of its own.
    let kind = if version.starts_with("v1.9.") { "installer" } else { "nocloud-installer" };
    let image = format!("factory.talos.dev/{kind}/{SCHEMATIC_ID}:{version}");
    for number in [WORKER, PLANE] {
        oracle.admin(number, &format!("--image {image} {step} wait-ready"));
        let found = &oracle.admin(number, "version")[0];
        assert_eq!(*found, json!({"tag": version, "arch": "amd64", "platform": "nocloud"}));
    }
    assert_eq!(ids(&oracle.admin(PLANE, "get=members")[0]), ["node-11", "node-12"]);
}

fn resets(oracle: &Oracle<'_>) {
    oracle.admin(WORKER, "--graceful --labels STATE,EPHEMERAL reset wait-maintenance");
    // The node was wiped, and can be configured again.
    oracle.anonymous(WORKER, "apply");
    oracle.admin(WORKER, "until=version wait-ready reboot wait-ready");
    oracle.admin(PLANE, "--labels EPHEMERAL reset");
    oracle.admin(PLANE, "until=version until=bootstrap wait-ready");
}

/// A staged config takes effect after a reboot. A config in try mode takes effect at once.
fn applies_staged_and_try(oracle: &Oracle<'_>) {
    let config = oracle.bed.config(WORKER, false);
    let renamed = config.expose().replace("node-12", "renamed");
    // The configs of older releases do not contain the host name.
    if renamed == *config.expose() {
        return;
    }
    let file = oracle.path("renamed.yaml");
    std::fs::write(&file, renamed).unwrap();
    let stage = "--mode staged apply get=hostname reboot wait-ready get=hostname";
    let saw = oracle.admin(WORKER, &format!("--config {file} {stage}"));
    assert_eq!(saw[0]["modes"], json!(["STAGED"]));
    assert_eq!(saw[1][0]["spec"]["hostname"], "node-12");
    assert_eq!(saw[4][0]["spec"]["hostname"], "renamed");
    let saw = oracle.admin(WORKER, &format!("--config {file} --mode try apply"));
    assert_eq!(saw[0]["modes"], json!(["TRY"]));
}

/// Runs all operations on a cluster of this release.
fn run_all_operations(version: &str, upgrade: &str, next: &str) {
    let bed = TestBed::new(version);
    let Some(oracle) = Oracle::find(&bed) else { return };
    bed.start(PLANE);
    bed.start(WORKER);
    oracle.make_cluster();
    reads_resources(&oracle, version);
    reads_kubeconfig_snapshot_and_events(&oracle);
    upgrades(&oracle, upgrade, next);
    resets(&oracle);
    applies_staged_and_try(&oracle);
    drop(oracle);
    bed.lab.stop();
}

#[test]
fn the_talos_client_works_with_nodes_of_1_8() {
    run_all_operations("v1.8.4", "upgrade", "v1.9.6");
}

#[test]
fn the_talos_client_works_with_nodes_of_1_11() {
    run_all_operations("v1.11.6", "upgrade", "v1.12.7");
}

#[test]
fn the_talos_client_works_with_nodes_of_1_12() {
    run_all_operations("v1.12.7", "upgrade", "v1.13.6");
}

#[test]
fn the_talos_client_works_with_nodes_of_1_13() {
    run_all_operations("v1.13.0", "upgrade-lifecycle", "v1.13.6");
}
