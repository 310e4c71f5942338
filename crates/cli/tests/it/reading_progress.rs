//! Progress output of commands while they read a slow Proxmox.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::process::{Command, Stdio};
use std::time::Duration;

use talmox_clock::Clock;

use crate::lab::{IN_FILE, ServedLab};
use crate::support::{Cluster, SECRETS};

/// Start of a progress line on a terminal.
const LINE: &str = "\r\u{1b}[K";

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
        typing.wait_for(&format!("{LINE}reading Proxmox"));
        typing.wait_for("reading Proxmox: 1 host");
        typing.wait_for("Execute this plan?");
        typing.write("n\n");
        let (code, shown) = typing.end();
        assert_eq!(code, Some(1), "{shown}");
        // The progress line is erased before the plan is shown.
        let rest = shown.rsplit(LINE).next().unwrap();
        assert!(rest.contains("Execute this plan?") && !rest.contains("reading"), "{shown:?}");
    }
    let run = cluster.run(&format!("up --yes --format json {IN_FILE}"));
    assert_eq!(run.code, 0, "{}", run.stderr);
    assert!(!run.stdout.contains("reading") && !run.stderr.contains("reading "), "{}", run.stderr);
}

#[test]
fn a_terminal_shows_the_generation_of_secrets_before_proxmox_answers() {
    let cluster = Cluster::of_one_node();
    cluster.folder.write("faults.yaml", SLOW);
    let _lab =
        ServedLab::in_file(&cluster, "--inventory inventory/dev --speed 1 --faults faults.yaml");
    fs::remove_file(cluster.folder.path().join(SECRETS)).unwrap();
    let clock = Clock::real();
    for command in ["up", "plan"] {
        let started = clock.since_epoch();
        let Some(mut typing) = cluster.folder.typing(&format!("{command} {IN_FILE}")) else {
            return;
        };
        typing.wait_for(&format!("{LINE}generating secrets"));
        let taken = clock.since_epoch().saturating_sub(started);
        assert!(taken < Duration::from_secs(7), "{command}: it came after the answer: {taken:?}");
        typing.wait_for(&format!("{LINE}reading Proxmox"));
        // Ctrl-C ends the command.
        typing.write("\u{3}");
        let (code, shown) = typing.end();
        assert_ne!(code, Some(0), "{shown}");
        assert!(shown.starts_with(&format!("{LINE}generating secrets")), "{shown:?}");
    }
}

#[test]
fn commands_that_only_read_show_the_progress_line_on_a_terminal_only() {
    let cluster = Cluster::of_one_node();
    let _lab = ServedLab::in_file(&cluster, "--inventory inventory/dev --speed 20");
    for command in ["plan", "status", "destroy", "check --live"] {
        let args = format!("{command} {IN_FILE}");
        let Some(mut typing) = cluster.folder.typing(&args) else { return };
        typing.wait_for(&format!("{LINE}reading Proxmox"));
        let (_, shown) = typing.end();
        let rest = shown.rsplit(LINE).next().unwrap();
        assert!(!rest.is_empty() && !rest.contains("reading Proxmox"), "{command}: {shown:?}");
        let (_, quiet) = cluster.folder.typed(&format!("{args} --quiet"), "").unwrap();
        assert!(!quiet.contains("reading Proxmox"), "{command}: {quiet:?}");
        let run = cluster.run(&args);
        assert!(!run.stderr.contains("reading "), "{command}: {}", run.stderr);
    }
}
