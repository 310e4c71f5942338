//! Tests of `up` and `plan` with limits, without consent to removals, and with changes that are left.

use std::thread;
use std::time::Duration;

use serde_json::Value as Json;

use crate::lab::{IN_FILE, ServedLab};
use crate::support::{Cluster, Run};

const INVENTORY: &str = "inventory/dev/cluster.yaml";
const WORKER: &str = "  - {name: wk-1, ip: 10.0.0.21}\n";

#[track_caller]
fn ended(run: Run, code: i32) -> Run {
    assert_eq!(run.code, code, "{}{}", run.stdout, run.stderr);
    run
}

/// Names of the VMs in the lab. `None` if the VMs cannot be listed. For some seconds Proxmox lists a new VM with a default name such as
/// `VM 104`, so the list is read until all VMs have their own names, at most for 10 seconds.
fn vm_names(lab: &ServedLab) -> Option<Vec<String>> {
    let mut names = vec![];
    for _ in 0..100 {
        let listed = lab.get("/cluster/resources?type=vm")?;
        let name = |vm: &Json| vm["name"].as_str().unwrap_or_default().to_owned();
        names = listed["data"].as_array().unwrap().iter().map(name).collect();
        if names.iter().all(|name: &String| !name.is_empty() && !name.starts_with("VM ")) {
            break;
        }
        thread::sleep(Duration::from_millis(100));
    }
    names.sort_unstable();
    Some(names)
}

#[test]
fn limits_name_nodes_that_exist() {
    let cluster = Cluster::with_secrets();
    for flag in ["--node wk-l", "--allow-removal=wk-l"] {
        for command in ["up --yes --lab", "plan --lab"] {
            let run = ended(cluster.run(&format!("{command} {flag}")), 64);
            assert!(run.stderr.contains("there is no node `wk-l`"), "{}", run.stderr);
            assert!(run.stderr.contains("did you mean `wk-1`?"), "{}", run.stderr);
        }
    }
    cluster.folder.write("saved.json", "{}");
    let run = ended(cluster.run("up --lab --plan saved.json --node wk-1"), 64);
    assert!(run.stderr.contains("--plan cannot be used with --node, --only"), "{}", run.stderr);
}

#[test]
fn only_images_are_fetched_if_nothing_else_is_selected() {
    let cluster = Cluster::with_secrets();
    let run = ended(cluster.run("plan --lab --only images --format json"), 0);
    let plan: Json = serde_json::from_str(&run.stdout).unwrap();
    let kinds: Vec<&str> =
        plan["steps"].as_array().unwrap().iter().map(|it| it["kind"].as_str().unwrap()).collect();
    assert_eq!(kinds, ["post-schematic", "fetch-image"], "{plan:#}");
    let left: Vec<&Json> = plan["changes"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|change| change["is_planned"] == false)
        .map(|change| &change["left"])
        .collect();
    assert!(!left.is_empty() && left.iter().all(|why| *why == "not-selected"), "{plan:#}");
    // The command that executes the plan has the same limits.
    let run = ended(cluster.run("plan --lab --only images --max-unavailable 2"), 0);
    let next = "`talmox up --lab --only images --max-unavailable 2` executes this plan.";
    assert!(run.stderr.contains(next), "{}", run.stderr);
}

#[test]
fn changes_without_consent_or_with_an_error_do_not_block_the_others() {
    let cluster = Cluster::with_secrets();
    let lab = ServedLab::in_file(&cluster, "--inventory inventory/dev --speed 20");
    let up = format!("up --yes {IN_FILE}");
    ended(cluster.run(&up), 0);
    let used = cluster.run(&format!("output cp-1.vmid {IN_FILE}")).stdout;
    let text = cluster.folder.read(INVENTORY);

    // wk-2 is created, although wk-1 may not be removed and wk-3 cannot be created.
    let third = format!("  - {{name: wk-3, ip: 10.0.0.23, vmid: {}}}\n", used.trim());
    let second = "  - {name: wk-2, ip: 10.0.0.22}\n";
    cluster.folder.write(INVENTORY, &text.replace(WORKER, &format!("{second}{third}")));
    let run = ended(cluster.run(&up), 3);
    assert!(run.stderr.contains("error[vmid-in-use]: wk-3: "), "{}", run.stderr);
    assert!(run.stdout.contains("Left as it is:\n"), "{}", run.stdout);
    assert!(run.stdout.contains("--allow-removal=wk-1 allows it"), "{}", run.stdout);
    assert!(run.stdout.contains("  node wk-3: "), "{}", run.stdout);
    if let Some(names) = vm_names(&lab) {
        assert_eq!(names, ["cp-1", "wk-1", "wk-2"]);
    }

    // Without the error of wk-3, only the removal of wk-1 is left, because it needs consent.
    cluster.folder.write(INVENTORY, &text.replace(WORKER, second));
    let run = ended(cluster.run(&up), 3);
    assert!(run.stdout.starts_with("Nothing was changed.\nLeft as it is:\n"), "{}", run.stdout);
    let run = ended(cluster.run(&format!("up --yes --format json {IN_FILE}")), 3);
    let result: Json = serde_json::from_str(&run.stdout).unwrap();
    assert_eq!(result["changed"], false);
    let left = result["left"].as_array().unwrap();
    assert!(left.iter().any(|line| line.as_str().unwrap().contains("wk-1")), "{result:#}");
    assert_eq!(left.len(), 1, "a removed node has one line: {result:#}");
    // On a terminal, `up` asks for the name of the node. After another answer, it asks again.
    for wrong in [&[] as &[&str], &["yes"], &["wk-2", "y"]] {
        let answers: String = wrong.iter().map(|answer| format!("{answer}\n")).collect();
        let typed = cluster.folder.typed(&format!("up {IN_FILE}"), &format!("{answers}\n"));
        let Some((code, shown)) = typed else { break };
        assert_eq!(code, Some(3), "{shown}");
        let asked = shown.matches("The disks of wk-1 would be deleted.").count();
        assert_eq!(asked, wrong.len() + 1, "{shown}");
        for answer in wrong {
            let message = format!("`{answer}` is not the name of this node.");
            assert!(shown.contains(&message), "{shown}");
        }
        assert!(shown.contains("wk-1 is left as it is."), "{shown}");
    }
    if let Some(names) = vm_names(&lab) {
        assert_eq!(names, ["cp-1", "wk-1", "wk-2"]);
    }

    // A node that `--node` does not select does not change the exit code.
    let run = ended(cluster.run(&format!("up --yes --node wk-2 {IN_FILE}")), 0);
    assert_eq!(run.stdout, "Nothing to do within the limits of --node and --only.\n");
}

#[test]
fn an_ignored_difference_is_shown_and_not_changed() {
    let cluster = Cluster::of_one_node();
    let _lab = ServedLab::in_file(&cluster, "--inventory inventory/dev --speed 20");
    ended(cluster.run(&format!("up --yes {IN_FILE}")), 0);
    let text = cluster.folder.read(INVENTORY);
    let ignored = "10.0.0.11, cores: 3, ignore: [{path: cores, reason: a test needs it}]}";
    cluster.folder.write(INVENTORY, &text.replace("10.0.0.11}", ignored));
    let plan = ended(cluster.run(&format!("plan --detailed-exitcode {IN_FILE}")), 0).stdout;
    assert!(plan.contains("not done: ignored)"), "{plan}");
    assert!(plan.contains("# a test needs it\n"), "{plan}");
    assert!(plan.ends_with("dev: nothing to do; 1 difference is ignored\n"), "{plan}");
    let up = ended(cluster.run(&format!("up {IN_FILE}")), 0).stdout;
    assert!(up.ends_with("except for ignored differences.\n"), "{up}");
    let status = ended(cluster.run(&format!("status {IN_FILE}")), 0).stdout;
    assert!(
        status.contains("cp-1: drift: vm cores 2 → 3 (needs a drain) (ignored: a test needs it)"),
        "{status}"
    );
}

/// A limited run does not wait for the other nodes, so the summary must not count them as ready.
#[test]
fn the_summary_of_a_limited_run_states_what_kubernetes_reports() {
    let cluster = Cluster::with_secrets();
    let _lab = ServedLab::in_file(&cluster, "--inventory inventory/dev --speed 20");
    ended(cluster.run(&format!("up --yes {IN_FILE}")), 0);
    ended(cluster.run(&format!("node shutdown wk-1 --yes {IN_FILE}")), 0);
    // Kubernetes reports a node whose kubelet stopped as not ready after 40 seconds of lab time.
    thread::sleep(Duration::from_secs(5));
    let text = cluster.folder.read(INVENTORY);
    let patch = "patches: {all: [{machine: {nodeLabels: {rack: row-7}}}]}\n";
    cluster.folder.write(INVENTORY, &format!("{text}{patch}"));
    let run = ended(cluster.run(&format!("up --yes --node cp-1 --only configs {IN_FILE}")), 0);
    let state = "1 of 2 nodes is Ready, 1 of 2 nodes is NotReady: Kubernetes v1.";
    assert!(run.stdout.contains(state), "{}{}", run.stdout, run.stderr);
}
