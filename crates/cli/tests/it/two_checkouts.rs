//! Runs in two folders with the same inventory, secrets and Proxmox.

use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Stdio};

use crate::lab::{IN_FILE, ServedLab};
use crate::support::Cluster;

/// Fault: the creation of the first VM is slow.
const FAULTS: &str = "faults:\n  - {task: qmcreate, nth: 1, delay: 4m}\n";
const SPEED: &str = "--inventory inventory/dev --speed 20 --faults faults.yaml";
const UP: &str = "up --yes --lab-at lab.json";

fn served(cluster: &Cluster) -> ServedLab {
    cluster.folder.write("faults.yaml", FAULTS);
    ServedLab::in_file(cluster, SPEED)
}

/// Starts `up` in a separate process and waits for its first change.
fn up(cluster: &Cluster) -> Child {
    let mut command = Command::new(env!("CARGO_BIN_EXE_talmox"));
    command.current_dir(cluster.folder.path()).env("HOME", cluster.folder.path().join("home"));
    command.args(UP.split_whitespace()).stdin(Stdio::null()).stdout(Stdio::null());
    let mut process = command.stderr(Stdio::piped()).spawn().unwrap();
    let mut printed = BufReader::new(process.stderr.take().unwrap());
    let mut line = String::new();
    while !line.contains("the task qmcreate") {
        line.clear();
        assert_ne!(printed.read_line(&mut line).unwrap(), 0, "it ended without making a VM");
    }
    // A thread reads the rest of the output, so that a full pipe does not stop the run.
    std::thread::spawn(move || std::io::copy(&mut printed, &mut std::io::sink()));
    process
}

#[test]
fn a_second_folder_is_locked_out_and_resumes_a_killed_run() {
    let first = Cluster::with_secrets();
    let _lab = served(&first);
    let second = first.checkout();
    let mut running = up(&first);
    let held = "error[cluster-locked]: nothing was changed: the cluster is in use by `talmox up` of dev by ";

    // In the other folder, all commands that change the cluster are rejected.
    let rejected = second.run(UP);
    assert_eq!(rejected.code, 1, "{}", rejected.stderr);
    assert!(rejected.stderr.contains(held), "{}", rejected.stderr);
    assert!(
        rejected.stderr.contains(&format!("(process {}, since ", running.id())),
        "{}",
        rejected.stderr
    );
    let rejected = second.run(&format!("destroy --yes {IN_FILE}"));
    assert_eq!(rejected.code, 1, "{}", rejected.stderr);

    // In the same folder, the cluster lock rejects a run even without the local lock file.
    std::fs::remove_dir_all(first.folder.path().join("inventory/dev/.talmox")).unwrap();
    let rejected = first.run(UP);
    assert_eq!(rejected.code, 1, "{}", rejected.stderr);
    assert!(rejected.stderr.contains(held), "{}", rejected.stderr);

    // The lock of a live run is not removed.
    let rejected = second.run(&format!("unlock --yes {IN_FILE}"));
    assert_eq!(rejected.code, 1, "{}", rejected.stderr);
    assert!(rejected.stderr.contains(" still runs"), "{}", rejected.stderr);

    // The process of the killed run is provably dead, so the next run neither waits nor needs `unlock`.
    running.kill().unwrap();
    running.wait().unwrap();
    let resumed = second.run(UP);
    assert_eq!(resumed.code, 0, "{}", resumed.stderr);
    assert!(!resumed.stderr.contains("waiting for the lock"), "{}", resumed.stderr);
    let again = first.run(UP);
    assert_eq!(again.code, 0, "{}", again.stderr);
    let unlocked = first.run(&format!("unlock --yes {IN_FILE}"));
    assert!(unlocked.stderr.contains("The cluster is not locked."), "{}", unlocked.stderr);
}

#[test]
fn a_remaining_lock_is_shown_and_removed_on_request() {
    let cluster = Cluster::with_secrets();
    let lab = served(&cluster);
    let mut running = up(&cluster);
    running.kill().unwrap();
    running.wait().unwrap();
    let locks = || {
        let pools = lab.get("/pools")?;
        let all = pools["data"].as_array().unwrap().clone();
        let name = |pool: &serde_json::Value| pool["poolid"].as_str().unwrap().to_owned();
        Some(all.iter().map(name).filter(|name| name.starts_with("talmox-lock/")).count())
    };
    let Some(left) = locks() else { return };
    assert_eq!(left, 1);
    let asked = cluster.run(&format!("unlock {IN_FILE}"));
    assert_eq!((asked.code, locks()), (64, Some(1)), "nobody was asked: {}", asked.stderr);
    assert!(asked.stderr.contains("`talmox up` of dev by "), "{}", asked.stderr);
    let removed = cluster.run(&format!("unlock --yes --format json {IN_FILE}"));
    assert_eq!((removed.code, locks()), (0, Some(0)), "{}", removed.stderr);
    assert_eq!(removed.stdout, "{\"cluster\":\"dev\",\"removed\":1}\n");
}

/// Two concurrent first runs must not generate two bundles.
#[test]
fn two_first_runs_of_one_name_generate_secrets_once() {
    let first = Cluster::new();
    let _lab = served(&first);
    let second = first.checkout();
    let mut running = up(&first);
    let rejected = second.run(UP);
    assert_eq!(rejected.code, 1, "{}", rejected.stderr);
    assert!(!second.folder.path().join(crate::support::SECRETS).exists(), "{}", rejected.stderr);
    running.kill().unwrap();
    running.wait().unwrap();
}

/// Commands that change a node or create VMs are rejected while a run holds the lock.
#[test]
fn node_apply_and_template_create_respect_the_lock() {
    let first = Cluster::with_secrets();
    first.folder.write("faults.yaml", &FAULTS.replace("4m", "12m"));
    let lab = ServedLab::in_file(&first, SPEED);
    let (second, third) = (first.checkout(), first.checkout());
    second.folder.write("config.yaml", "machine: {}\n");
    let text = third.folder.read("inventory/dev/cluster.yaml");
    let cloned = text.replace("1}\n", "1, template: talos-v1.11.2-base}\n");
    let cloned = format!("{cloned}boot: template\n");
    third.folder.write("inventory/dev/cluster.yaml", &cloned);
    let (apply, create) = (
        format!("node apply config.yaml cp-1 --insecure {IN_FILE}"),
        format!("template create --yes {IN_FILE}"),
    );
    let mut running = up(&first);
    let held = "error[cluster-locked]: nothing was changed: the cluster is in use by `talmox up` of dev by ";
    for (cluster, command) in [(&second, &apply), (&third, &create)] {
        let rejected = cluster.run(command);
        assert_eq!(rejected.code, 1, "{command}: {}", rejected.stderr);
        assert!(rejected.stderr.contains(held), "{command}: {}", rejected.stderr);
    }
    // A dry run needs no lock. It fails because the node does not exist.
    let dry = second.run(&format!("{apply} --dry-run"));
    assert!(!dry.stderr.contains("in use by"), "{}", dry.stderr);
    running.kill().unwrap();
    running.wait().unwrap();

    // The lock of a run whose process has ended is taken over and released.
    let made = third.run(&create);
    assert_eq!(made.code, 0, "{}", made.stderr);
    let tried = second.run(&apply);
    assert!(!tried.stderr.contains("in use by"), "{}", tried.stderr);
    assert!(!tried.stderr.contains("is not locked"), "{}", tried.stderr);
    let Some(pools) = lab.get("/pools") else { return };
    let all = pools["data"].as_array().unwrap();
    let is_lock =
        |pool: &&serde_json::Value| pool["poolid"].as_str().unwrap().starts_with("talmox-lock/");
    assert_eq!(all.iter().filter(is_lock).count(), 0, "{pools}");
}
