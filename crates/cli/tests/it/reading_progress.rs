//! Progress output of `up` while it reads a slow Proxmox.

use std::io::{BufRead as _, BufReader};
use std::process::{Command, Stdio};
use std::time::Duration;

use talmox_clock::Clock;

use crate::lab::{IN_FILE, ServedLab};
use crate::support::Cluster;

/// Fault with a delay that is longer than the start of the program on a busy machine.
const SLOW: &str = "faults: [{path: /version, delay: 8s, times: always}]\n";

#[test]
fn the_first_line_is_printed_before_proxmox_answers() {
    let cluster = Cluster::of_one_node();
    cluster.folder.write("faults.yaml", SLOW);
    let lab =
        ServedLab::in_file(&cluster, "--inventory inventory/dev --speed 1 --faults faults.yaml");
    let clock = Clock::real();
    let started = clock.since_epoch();
    let mut up = Command::new(env!("CARGO_BIN_EXE_talmox"))
        .current_dir(cluster.folder.path())
        .env("HOME", cluster.folder.path().join("home"))
        .args(format!("up {IN_FILE}").split_whitespace())
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::new(up.stderr.take().unwrap()).read_line(&mut line).unwrap();
    let taken = clock.since_epoch().saturating_sub(started);
    assert_eq!(line, format!("reading {}\n", lab.pve("url")));
    assert!(taken < Duration::from_secs(7), "it came after the answer: {taken:?}");
    up.kill().unwrap();
    up.wait().unwrap();
}

#[test]
fn a_terminal_shows_the_progress_line_and_json_output_does_not() {
    let cluster = Cluster::of_one_node();
    let slow = "faults: [{path: \"/nodes/**\", delay: 20s, times: 6}]\n";
    cluster.folder.write("faults.yaml", slow);
    let _lab =
        ServedLab::in_file(&cluster, "--inventory inventory/dev --speed 20 --faults faults.yaml");
    if let Some(mut typing) = cluster.folder.typing(&format!("up {IN_FILE}")) {
        typing.wait_for("\r\u{1b}[Kreading Proxmox");
        typing.wait_for("reading Proxmox: 1 host");
        typing.wait_for("Execute this plan?");
        typing.write("n\n");
        let (code, shown) = typing.end();
        assert_eq!(code, Some(1), "{shown}");
        // The progress line is erased before the plan is shown.
        let rest = shown.rsplit("\r\u{1b}[K").next().unwrap();
        assert!(rest.contains("Execute this plan?") && !rest.contains("reading"), "{shown:?}");
    }
    let run = cluster.run(&format!("up --yes --format json {IN_FILE}"));
    assert_eq!(run.code, 0, "{}", run.stderr);
    assert!(!run.stdout.contains("reading") && !run.stderr.contains("reading "), "{}", run.stderr);
}
