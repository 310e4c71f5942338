//! Runs of `up` that fail, are killed or are interrupted, and their output in `runs`.

use std::io::{BufRead as _, BufReader, Read as _};
use std::process::{Child, Command, Stdio};

use crate::lab::{IN_FILE, ServedLab};
use crate::support::{Cluster, Run};

/// Faults: the creation of the first VM fails, and a later creation is slow.
const FAULTS: &str = "\
faults:
  - {task: qmcreate, fail: {percent: 40, message: the disk is on fire}}
  - {task: qmcreate, nth: 3, delay: 10m}
";

/// Starts `up` in a separate process and waits until it prints these words.
fn up_until(cluster: &Cluster, words: &str) -> (Child, BufReader<impl std::io::Read>) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_talmox"));
    command.current_dir(cluster.folder.path()).env("HOME", cluster.folder.path().join("home"));
    command.args(format!("up --yes {IN_FILE}").split_whitespace());
    let mut process =
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let mut printed = BufReader::new(process.stderr.take().unwrap());
    let mut line = String::new();
    while !line.contains(words) {
        line.clear();
        assert_ne!(printed.read_line(&mut line).unwrap(), 0, "it ended without printing `{words}`");
    }
    (process, printed)
}

fn signal(process: &Child, name: &str) {
    let pid = process.id().to_string();
    assert!(Command::new("kill").args(["-s", name, &pid]).status().unwrap().success());
}

fn column(run: &Run, title: &str) -> Vec<String> {
    let at = run.stdout.lines().next().unwrap().find(title).unwrap();
    let cells = run.stdout.lines().skip(1).map(|line| &line[at..]);
    cells.map(|cell| cell.split_whitespace().next().unwrap().to_owned()).collect()
}

#[test]
fn failed_killed_and_interrupted_runs_are_listed_and_resumed() {
    let cluster = Cluster::with_secrets();
    cluster.folder.write("faults.yaml", FAULTS);
    let serve = "--inventory inventory/dev --speed 20 --faults faults.yaml";
    let _lab = ServedLab::in_file(&cluster, serve);
    let up = format!("up --yes {IN_FILE}");

    // The cause is reported once, with a hint. Skipped steps are only counted.
    let run = cluster.run(&up);
    assert_eq!(run.code, 1, "{}", run.stderr);
    let (_, end) = run.stderr.split_once("error[steps-failed]: ").unwrap();
    assert!(end.starts_with("1 of ") && end.contains(" more were skipped\n"), "{end}");
    assert_eq!(end.matches("the disk is on fire").count(), 1, "{end}");
    assert!(end.contains("hint: fix the cause, then run the same command to resume"));

    // One run is killed, and the next is interrupted with SIGINT.
    let (mut killed, _) = up_until(&cluster, "the task qmcreate");
    killed.kill().unwrap();
    killed.wait().unwrap();
    let (mut stopped, mut printed) = up_until(&cluster, "s  · ");
    let going = cluster.run("runs");
    assert_eq!(column(&going, "END")[..2], ["running", "killed"], "{}", going.stdout);
    signal(&stopped, "INT");
    let mut rest = String::new();
    printed.read_to_string(&mut rest).unwrap();
    assert_eq!(stopped.wait().unwrap().code(), Some(1), "{rest}");
    assert!(rest.contains("Stopping: ") && rest.contains("Ctrl-C again quits at once"), "{rest}");
    let stopping = rest.lines().find(|line| line.contains("Stopping: ")).unwrap();
    for words in [" steps are done, and ", "The same command resumes the run."] {
        assert!(stopping.contains(words), "{stopping}");
    }
    assert!(rest.contains("hint: run the same command to resume"), "{rest}");

    let run = cluster.run(&up);
    assert_eq!(run.code, 0, "{}", run.stderr);
    let runs = cluster.run("runs");
    assert_eq!(column(&runs, "END"), ["done", "cancelled", "killed", "failed"], "{}", runs.stdout);
    let first = column(&runs, "RUN").pop().unwrap();
    let shown = cluster.run(&format!("runs {first}"));
    assert!(shown.stdout.contains("the disk is on fire"), "{}", shown.stdout);
    let all = cluster.run(&format!("runs {first} --format json"));
    assert!(all.stdout.lines().all(|line| line.starts_with('{')), "{}", all.stdout);
}
