//! Decisions and times in the trace output of `-v`.

use crate::lab::{IN_FILE, ServedLab};
use crate::support::{Cluster, Run};

const LAB: &str = "--inventory inventory/dev --speed 20";
const INVENTORY: &str = "inventory/dev/cluster.yaml";
const WORKER: &str = "  - {name: wk-1, ip: 10.0.0.21}\n";

#[track_caller]
fn fine(run: Run) -> Run {
    assert_eq!(run.code, 0, "{}{}", run.stdout, run.stderr);
    run
}

/// Time, area and text of a trace line.
fn trace_line(line: &str) -> Option<(f64, &str, &str)> {
    let (time, rest) = line.split_once("s  ")?;
    let (area, text) = rest.split_once(' ')?;
    let is_area = ["pve", "talos", "kube", "web", "plan"].contains(&area);
    let time = time.trim_start().parse::<f64>().ok().filter(|_| is_area)?;
    Some((time, area, text.trim_start()))
}

/// Texts of the decisions in a trace.
fn decisions(trace: &str) -> Vec<&str> {
    let lines = trace.lines().filter_map(trace_line);
    lines.filter(|(_, area, _)| *area == "plan").map(|(_, _, text)| text).collect()
}

#[test]
fn the_trace_of_a_plan_has_every_decision_and_no_change() {
    let cluster = Cluster::with_secrets();
    let _lab = ServedLab::in_file(&cluster, LAB);
    let first = fine(cluster.run(&format!("plan -v {IN_FILE}"))).stderr;
    let placed = decisions(&first).into_iter().filter(|text| text.contains(": placed: new VM "));
    assert_eq!(placed.count(), 2, "{first}");
    fine(cluster.run(&format!("up --yes {IN_FILE}")));

    // The label makes the plan request dry runs from both nodes.
    let text = cluster.folder.read(INVENTORY);
    let ignored = "  - {name: wk-1, ip: 10.0.0.21, cores: 3, ignore: [{path: cores, reason: a test needs it}]}\n";
    let label = "patches: {all: [{machine: {nodeLabels: {rack: row-7}}}]}\n";
    cluster.folder.write(INVENTORY, &format!("{}{label}", text.replace(WORKER, ignored)));
    let all = fine(cluster.run(&format!("plan -v {IN_FILE}"))).stderr;
    let changes: Vec<&str> = all
        .lines()
        .filter(|line| trace_line(line).is_some_and(|(_, area, _)| area != "plan"))
        .filter(|line| !line.contains(": retry: "))
        .collect();
    assert_eq!(changes, Vec::<&str>::new(), "a plan changes nothing");
    let accepted = ": left: `ignore:` in the inventory accepts it (a test needs it)";
    let is_ignored = |text: &&&str| text.starts_with("vm wk-1 cores (") && text.ends_with(accepted);
    assert_eq!(decisions(&all).iter().filter(is_ignored).count(), 1, "{all}");
    let reads = fine(cluster.run(&format!("plan -vv {IN_FILE}"))).stderr;
    let dry = "  talos ApplyConfiguration (dry run) on 10.0.0.21:50000: ok (";
    assert!(reads.contains(dry), "{reads}");

    let limited = fine(cluster.run(&format!("plan -v --node cp-1 {IN_FILE}"))).stderr;
    let shown = decisions(&limited);
    assert!(shown.contains(&"wk-1: skipped: --node does not name it"), "{limited}");
    let excluded = ": left: --node or --only excludes it";
    let is_left = |text: &&&str| text.starts_with("node wk-1 ") && text.contains(excluded);
    assert_eq!(shown.iter().filter(is_left).count(), 1, "{limited}");

    // A removal without consent has the words of the plan.
    let (without, _) = text.split_once("workers:").unwrap();
    cluster.folder.write(INVENTORY, without);
    let removal = fine(cluster.run(&format!("plan -v {IN_FILE}")));
    let left = "vm wk-1 (destroy): left: it loses data; --allow-removal=wk-1 allows it (the node is no longer in the inventory";
    assert!(
        decisions(&removal.stderr).iter().any(|text| text.starts_with(left)),
        "{}",
        removal.stderr
    );
    assert!(!removal.stderr.contains("NeedsConsent"), "{}", removal.stderr);
}

/// The lines of the steps and the trace lines of a run in a lab have the same clock.
#[test]
fn trace_lines_of_a_run_in_a_lab_have_lab_time() {
    let cluster = Cluster::of_one_node();
    let _lab = ServedLab::in_file(&cluster, LAB);
    let run = fine(cluster.run(&format!("up -vv --yes {IN_FILE}"))).stderr;
    assert!(run.contains(" - all times are lab time\n"), "{run}");
    let of_steps = run.lines().filter(|line| line.ends_with(']')).filter_map(trace_line);
    let traced = of_steps.map(|(time, _, _)| time).fold(0.0, f64::max);
    let of_ends = run.lines().filter(|line| line.contains("s  ✓ ")).filter_map(|line| {
        line.split_once("s  ").and_then(|(time, _)| time.trim_start().parse::<f64>().ok())
    });
    let ended = of_ends.fold(0.0, f64::max);
    // Real time would be a twentieth of the lab time.
    assert!(ended > 5.0, "{run}");
    assert!(traced > ended / 2.0 && traced < ended + 5.0, "{traced} {ended}: {run}");
}
