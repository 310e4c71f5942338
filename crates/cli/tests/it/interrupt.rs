//! Signals that arrive before a command has made a change, and second signals.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::Duration;

use crate::support::{Cluster, Folder};

const TOKEN: &str = "echo 'talmox@pve!ci=00000000-0000-0000-0000-000000000000'";

/// Inventory with two clusters. The token command of the first cluster sends a signal to talmox. The token command of the
/// second cluster creates a file.
fn clusters(signal: &str) -> Cluster {
    let cluster = Cluster::new();
    let path = "inventory/dev/cluster.yaml";
    let text = cluster.folder.read(path).replace("pve:8006", "127.0.0.1:1");
    let with = |script: &Path| {
        let reference = format!("{{command: [\"{}\"]}}", script.display());
        text.replace("{secret: proxmox.token}", &reference)
    };
    let first = cluster.script("first", &format!("kill -s {signal} $PPID\n{TOKEN}"));
    let second = cluster.script("second", &format!("touch asked\n{TOKEN}"));
    cluster.folder.write(path, &with(&first));
    let other = with(&second).replace("10.0.0.", "10.9.0.");
    let other = other.replace("cp-1", "cp-9").replace("wk-1", "wk-9");
    cluster.folder.write("inventory/ops/cluster.yaml", &other);
    cluster
}

#[test]
fn one_signal_stops_all_clusters_with_a_hint() {
    for (signal, command) in [("TERM", "plan"), ("INT", "up dev ops --yes")] {
        let cluster = clusters(signal);
        let run = cluster.run(&format!("{command} --allow-commands"));
        assert_eq!(run.code, 1, "{command}: {}", run.stderr);
        let printed = "error[interrupted]: interrupted: no step was left unfinished\n\n\
            hint: run the same command to resume\n";
        assert!(run.stderr.ends_with(printed), "{command}: {}", run.stderr);
        assert_eq!(run.stdout, "", "{command}");
        assert!(!cluster.folder.path().join("asked").exists(), "{command} went on to the next");
        assert!(!cluster.folder.path().join("inventory/dev/secrets.sops.yaml").exists());
    }
}

fn count(folder: &Path) -> usize {
    std::fs::read_dir(folder).unwrap().count()
}

/// Number of folders with a lock file. A lab creates the lock file last.
fn count_locked(folder: &Path) -> usize {
    let entries = std::fs::read_dir(folder).unwrap().flatten();
    entries.filter(|entry| entry.path().join("lock").exists()).count()
}

/// A command with the built-in inventory and temporary folders in `temporary`.
fn quickstart(here: &Folder, temporary: &Folder, arguments: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_talmox"));
    command.current_dir(here.path()).env("HOME", here.path()).env("TMPDIR", temporary.path());
    command.args(arguments.split_whitespace()).stdout(Stdio::null()).stderr(Stdio::null());
    command
}

/// Starts a command in a lab that is so slow that the command still runs when a signal arrives, and waits until the folder of
/// the inventory and the folder of the lab exist.
fn started_plan(here: &Folder, temporary: &Folder) -> Child {
    let arguments = "plan --lab --lab-speed 1 --lab-profile slow";
    let mut process = quickstart(here, temporary, arguments).spawn().unwrap();
    while count_locked(temporary.path()) < 2 {
        assert!(process.try_wait().unwrap().is_none(), "it ended too early");
        thread::park_timeout(Duration::from_millis(5));
    }
    process
}

fn send_signal(process: &Child, name: &str) {
    let pid = process.id().to_string();
    assert!(Command::new("kill").args(["-s", name, &pid]).status().unwrap().success());
}

/// Reads lines until one contains these words.
fn read_until(printed: &mut impl BufRead, words: &str) {
    let mut line = String::new();
    while !line.contains(words) {
        line.clear();
        assert_ne!(printed.read_line(&mut line).unwrap(), 0, "it ended without printing `{words}`");
    }
}

/// Waits ten seconds for the end of a process.
fn ended(process: &mut Child) -> ExitStatus {
    for _ in 0..400 {
        if let Some(status) = process.try_wait().unwrap() {
            return status;
        }
        thread::park_timeout(Duration::from_millis(25));
    }
    process.kill().unwrap();
    panic!("the process does not end");
}

/// The tasks of a lab own the folder of the lab, so the process must not exit before the tasks end.
#[test]
fn an_interrupted_lab_removes_its_folder() {
    for nth in 0..10 {
        let (here, temporary) = (Folder::new(), Folder::new());
        let mut process = started_plan(&here, &temporary);
        thread::park_timeout(Duration::from_millis(20 * nth));
        send_signal(&process, "INT");
        process.wait().unwrap();
        assert_eq!(count(temporary.path()), 0, "{nth}");
    }
}

#[test]
fn a_second_signal_ends_a_run_in_a_lab_at_once_and_removes_its_folders() {
    for second in ["INT", "TERM"] {
        let (here, temporary) = (Folder::new(), Folder::new());
        here.write("faults.yaml", "faults:\n  - {task: qmcreate, delay: 1h}\n");
        let mut command = quickstart(&here, &temporary, "up --lab --lab-faults faults.yaml");
        let mut process = command.stderr(Stdio::piped()).spawn().unwrap();
        let mut printed = BufReader::new(process.stderr.take().unwrap());
        read_until(&mut printed, "the task qmcreate");
        assert_eq!(count(temporary.path()), 2);
        // The run waits for the task, which takes an hour of lab time.
        send_signal(&process, "INT");
        read_until(&mut printed, "Stopping: ");
        send_signal(&process, second);
        assert_eq!(ended(&mut process).code(), Some(130), "{second}");
        assert_eq!(count(temporary.path()), 0, "{second}");
    }
}

#[test]
fn the_next_lab_removes_the_folders_of_a_killed_process() {
    let (here, temporary) = (Folder::new(), Folder::new());
    let mut process = started_plan(&here, &temporary);
    process.kill().unwrap();
    process.wait().unwrap();
    assert_eq!(count(temporary.path()), 2);
    assert!(quickstart(&here, &temporary, "plan --lab").status().unwrap().success());
    assert_eq!(count(temporary.path()), 0);
}
