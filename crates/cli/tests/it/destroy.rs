//! Findings of `destroy`, and interrupts during `destroy`.

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Read as _};
use std::process::{Child, ChildStdout, Command, Stdio};

use serde_json::Value as Json;

use crate::lab::{IN_FILE, ServedLab};
use crate::support::{Cluster, SECRETS};

#[test]
fn destroy_of_a_cluster_that_was_never_created_does_not_recommend_up() {
    let cluster = Cluster::new();
    let run = cluster.run("destroy --yes");
    assert_eq!(run.code, 1, "{}", run.stderr);
    assert!(run.stderr.contains("there is nothing to delete"), "{}", run.stderr);
    assert!(!run.stderr.contains("talmox up"), "{}", run.stderr);
    assert!(!cluster.folder.path().join(SECRETS).exists());
}

#[test]
fn findings_are_in_the_json_output() {
    let cluster = Cluster::with_secrets();
    let path = "inventory/dev/cluster.yaml";
    let text = cluster.folder.read(path);
    cluster.folder.write(path, &text.replace("ip: 10.0.0.21", "ip: 10.0.0.21, protection: true"));
    let _lab = ServedLab::in_file(&cluster, "--inventory inventory/dev --speed 20");
    let up = cluster.run(&format!("up --yes {IN_FILE}"));
    assert_eq!(up.code, 0, "{}", up.stderr);
    let run = cluster.run(&format!("destroy --secrets --yes --format json {IN_FILE}"));
    assert_eq!(run.code, 1, "{}", run.stderr);
    let reported: Json = serde_json::from_str(&run.stdout).unwrap();
    let finding = &reported["error"]["plan"]["findings"][0];
    assert_eq!((&finding["severity"], &finding["subject"]), (&"error".into(), &"wk-1".into()));
    assert_eq!(finding["code"], "vm-protected");
    assert_eq!(reported["error"]["code"], "plan-blocked");
    assert!(finding["hint"].as_str().unwrap().contains("--protection 0"), "{finding}");
    assert!(run.stderr.contains("error[vm-protected]: wk-1: its VM "), "{}", run.stderr);
    assert!(cluster.folder.path().join(SECRETS).exists());
}

/// Command in a separate process with JSON output.
struct RunningCommand {
    process: Child,
    lines: BufReader<ChildStdout>,
    reported: Vec<Json>,
}

impl RunningCommand {
    fn start(cluster: &Cluster, args: &str) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_talmox"));
        command
            .env("HOME", cluster.folder.path().join("home"))
            .current_dir(cluster.folder.path())
            .args(format!("{args} --yes --format json {IN_FILE}").split_whitespace())
            .stdout(Stdio::piped())
            .stderr(Stdio::null());
        let mut process = command.spawn().unwrap();
        let lines = BufReader::new(process.stdout.take().unwrap());
        Self { process, lines, reported: vec![] }
    }

    /// Waits until the output contains the words `times` times, and then sends a signal.
    fn signal_at(&mut self, (words, times): (&str, usize), signal: &str) {
        let mut count = 0;
        while count < times {
            let mut line = String::new();
            assert_ne!(self.lines.read_line(&mut line).unwrap(), 0, "it ended before {words}");
            self.reported.push(serde_json::from_str(&line).unwrap());
            count += usize::from(line.contains(words));
        }
        let pid = self.process.id().to_string();
        assert!(Command::new("kill").args(["-s", signal, &pid]).status().unwrap().success());
    }

    /// Exit code of the command, and all its JSON lines.
    fn end(mut self) -> (Option<i32>, Vec<Json>) {
        let mut rest = String::new();
        self.lines.read_to_string(&mut rest).unwrap();
        self.reported.extend(rest.lines().map(|line| serde_json::from_str::<Json>(line).unwrap()));
        (self.process.wait().unwrap().code(), self.reported)
    }
}

/// Whether the output reports a step as done.
fn is_done(reported: &[Json], step: &str) -> bool {
    let mut ends = reported.iter().filter_map(|line| {
        let what = &line["what"];
        let is_it = what["event"] == "step_ended" && what["step"] == step;
        is_it.then(|| what["end"]["end"].as_str().unwrap())
    });
    ends.any(|end| ["done", "already"].contains(&end))
}

/// Names of the VMs, and whether each VM runs. Asserts that no Proxmox task is running.
fn vms(lab: &ServedLab) -> Option<BTreeMap<String, bool>> {
    let tasks = lab.get("/nodes/pve/tasks?source=active")?;
    assert_eq!(tasks["data"], Json::Array(vec![]), "they still run");
    let vms = lab.get("/nodes/pve/qemu")?;
    let vm = |vm: &Json| (vm["name"].as_str().unwrap().to_owned(), vm["status"] == "running");
    Some(vms["data"].as_array().unwrap().iter().map(vm).collect())
}

#[test]
fn an_interrupted_run_reports_the_done_steps_and_how_to_resume() {
    let cluster = Cluster::with_secrets();
    let slow = "faults:\n  - {task: qmstop, times: 2, delay: 60s}\n  - {task: qmdestroy, times: 2, delay: 2m}\n";
    cluster.folder.write("faults.yaml", slow);
    let lab =
        ServedLab::in_file(&cluster, "--inventory inventory/dev --speed 20 --faults faults.yaml");
    let up = cluster.run(&format!("up --yes {IN_FILE}"));
    assert_eq!(up.code, 0, "{}", up.stderr);
    for (signal, task, times) in [("INT", "qmstop", 1), ("TERM", "qmdestroy", 2)] {
        let mut destroy = RunningCommand::start(&cluster, "destroy --secrets");
        destroy.signal_at((&format!("the task {task}"), times), signal);
        let (code, reported) = destroy.end();
        assert_eq!(code, Some(1), "{signal}: {reported:#?}");
        let error = &reported.last().unwrap()["error"];
        assert!(
            error["message"].as_str().unwrap().starts_with("interrupted: "),
            "{signal}: {error}"
        );
        assert!(
            error["hint"].as_str().unwrap().starts_with("run the same command to resume"),
            "{error}"
        );
        // The secrets are deleted in the last step, and are kept after an interrupt.
        assert!(cluster.folder.path().join(SECRETS).exists());
        let Some(vms) = vms(&lab) else { continue };
        for node in ["cp-1", "wk-1"] {
            let [is_off, is_gone] =
                ["stop", "destroy"].map(|act| is_done(&reported, &format!("vm/{node}/{act}")));
            let found = vms.get(node);
            assert_eq!(found.is_none(), is_gone, "{node}: {vms:?} {reported:#?}");
            assert_eq!(found != Some(&true), is_off, "{node}: {vms:?} {reported:#?}");
        }
        let gone = vms.values().filter(|runs| !**runs).count() + 2 - vms.len();
        assert!(gone >= times, "{signal}: {vms:?}");
    }
    let last = cluster.run(&format!("destroy --secrets --yes {IN_FILE}"));
    assert_eq!(last.code, 0, "{}", last.stderr);
    assert!(!cluster.folder.path().join(SECRETS).exists());
}

#[test]
fn a_second_signal_ends_the_process_at_once() {
    let cluster = Cluster::of_one_node();
    cluster.folder.write("faults.yaml", "faults:\n  - {task: qmcreate, delay: 2m}\n");
    let lab =
        ServedLab::in_file(&cluster, "--inventory inventory/dev --speed 20 --faults faults.yaml");
    let mut up = RunningCommand::start(&cluster, "up");
    up.signal_at(("the task qmcreate", 1), "INT");
    up.signal_at(("run_stopping", 1), "INT");
    let (code, _) = up.end();
    assert_eq!(code, Some(130));
    if let Some(tasks) = lab.get("/nodes/pve/tasks?source=active") {
        assert_eq!(tasks["data"][0]["type"], "qmcreate", "the task continues in Proxmox");
    }
}

#[test]
fn clusters_after_an_interrupt_are_not_processed() {
    let cluster = Cluster::of_one_node();
    let path = "inventory/dev/cluster.yaml";
    let other = cluster.folder.read(path).replace("10.0.", "10.9.").replace("cp-1", "cp-9");
    cluster.folder.write("inventory/ops/cluster.yaml", &other);
    cluster.folder.write("faults.yaml", "faults:\n  - {task: qmdestroy, delay: 60s}\n");
    let lab =
        ServedLab::in_file(&cluster, "--inventory inventory/dev --speed 20 --faults faults.yaml");
    let up = cluster.run(&format!("up dev --yes {IN_FILE}"));
    assert_eq!(up.code, 0, "{}", up.stderr);
    let mut destroy = RunningCommand::start(&cluster, "destroy dev ops");
    destroy.signal_at(("the task qmdestroy", 1), "INT");
    let (code, reported) = destroy.end();
    assert_eq!(code, Some(1), "{reported:#?}");
    let message = &reported.last().unwrap()["error"]["message"];
    assert_eq!(message, "interrupted: no step was left unfinished");
    let ends: Vec<&Json> = reported.iter().filter(|line| line.get("changed").is_some()).collect();
    assert_eq!((ends.len(), &ends[0]["cluster"]), (1, &"dev".into()), "{reported:#?}");
    assert!(is_done(&reported, "vm/cp-1/destroy"), "{reported:#?}");
    if let Some(vms) = vms(&lab) {
        assert!(vms.is_empty(), "{vms:?}");
    }
}

#[test]
fn destroy_requires_the_cluster_name_as_confirmation() {
    let cluster = Cluster::of_one_node();
    let lab = ServedLab::in_file(&cluster, "--inventory inventory/dev --speed 20");
    let up = cluster.run(&format!("up --yes {IN_FILE}"));
    assert_eq!(up.code, 0, "{}", up.stderr);
    let destroy = format!("destroy --secrets {IN_FILE}");
    for wrong in ["prod", "yes", "", "DEV"] {
        let Some((code, shown)) = cluster.folder.typed(&destroy, &format!("{wrong}\n")) else {
            return;
        };
        assert_eq!(code, Some(1), "{wrong}: {shown}");
        assert!(shown.contains("To confirm, enter the name of the cluster, `dev`:"), "{shown}");
        assert!(shown.contains("nothing was changed: the answer was not `dev`"), "{shown}");
    }
    // Nothing was deleted.
    let plan = cluster.run(&format!("plan --detailed-exitcode {IN_FILE}"));
    assert_eq!(plan.code, 0, "{}{}", plan.stdout, plan.stderr);
    assert!(cluster.folder.path().join(SECRETS).exists());
    let (code, shown) = cluster.folder.typed(&destroy, "dev\n").unwrap();
    assert_eq!(code, Some(0), "{shown}");
    assert!(shown.contains("vm/cp-1/destroy"), "{shown}");
    assert!(!cluster.folder.path().join(SECRETS).exists());
    if let Some(vms) = vms(&lab) {
        assert!(vms.is_empty(), "{vms:?}");
    }
}
