//! `destroy`: what stands in its way, and how it is stopped.

use std::io::{BufRead as _, BufReader, Read as _};
use std::process::{Command, Stdio};

use serde_json::Value as Json;

use crate::lab::{IN_FILE, Served};
use crate::support::{Cluster, SECRETS};

#[test]
fn findings_are_told_to_programs_too() {
    let cluster = Cluster::with_secrets();
    let path = "inventory/dev/cluster.yaml";
    let text = cluster.folder.read(path);
    cluster.folder.write(path, &text.replace("ip: 10.0.0.21", "ip: 10.0.0.21, protection: true"));
    let _lab = Served::in_file(&cluster, "--inventory inventory/dev --speed 20");
    let up = cluster.run(&format!("up --yes {IN_FILE}"));
    assert_eq!(up.code, 0, "{}", up.stderr);
    let run = cluster.run(&format!("destroy --secrets --yes --format json {IN_FILE}"));
    assert_eq!(run.code, 1, "{}", run.stderr);
    let told: Json = serde_json::from_str(&run.stdout).unwrap();
    let finding = &told["error"]["plan"]["findings"][0];
    assert_eq!((&finding["severity"], &finding["subject"]), (&"error".into(), &"wk-1".into()));
    assert!(finding["hint"].as_str().unwrap().contains("--protection 0"), "{finding}");
    assert!(run.stderr.contains("error: wk-1: its VM "), "{}", run.stderr);
    assert!(cluster.folder.path().join(SECRETS).exists());
}

#[test]
fn who_stops_it_is_told_how_to_go_on() {
    let cluster = Cluster::with_secrets();
    let slow = "faults:\n  - {task: qmdestroy, times: always, delay: 24h}\n";
    cluster.folder.write("faults.yaml", slow);
    let _lab =
        Served::in_file(&cluster, "--inventory inventory/dev --speed 20 --faults faults.yaml");
    let up = cluster.run(&format!("up --yes {IN_FILE}"));
    assert_eq!(up.code, 0, "{}", up.stderr);
    // The second run waits for the task of the first.
    for signal in ["INT", "TERM"] {
        let (code, told) = stopped_by(&cluster, signal);
        assert_eq!(code, Some(1), "{signal}: {told:#}");
        let (error, hint) = (&told["error"]["message"], &told["error"]["hint"]);
        assert!(error.as_str().unwrap().starts_with("stopped: "), "{signal}: {told:#}");
        assert!(hint.as_str().unwrap().starts_with("the same command goes on"), "{told:#}");
    }
    assert!(cluster.folder.path().join(SECRETS).exists());
}

/// Runs `destroy` until it waits for a VM to go, and sends a signal: how it ended, and the last that it said.
fn stopped_by(cluster: &Cluster, signal: &str) -> (Option<i32>, Json) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_talmox"));
    command
        .env("HOME", cluster.folder.path().join("home"))
        .current_dir(cluster.folder.path())
        .args(["destroy", "--yes", "--secrets", "--format", "json", "--lab-at", "lab.json"])
        .stdout(Stdio::piped())
        .stderr(Stdio::null());
    let mut process = command.spawn().unwrap();
    let mut lines = BufReader::new(process.stdout.take().unwrap());
    let mut line = String::new();
    while !line.contains("the task qmdestroy") {
        line.clear();
        assert_ne!(lines.read_line(&mut line).unwrap(), 0, "it ended before");
    }
    let pid = process.id().to_string();
    assert!(Command::new("kill").args(["-s", signal, &pid]).status().unwrap().success());
    let mut rest = String::new();
    lines.read_to_string(&mut rest).unwrap();
    let last = rest.lines().last().unwrap_or_default();
    (process.wait().unwrap().code(), serde_json::from_str(last).unwrap())
}
