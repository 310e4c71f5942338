//! Nodes that a plan leaves out because of an error about them, while the other nodes are changed.

use talmox_plan::plan::{Action, Left, Plan, show};

use crate::observed_state::{empty, settled};
use crate::support::{HEAD, HOME, desired, home, ids, plan};

/// The home cluster with these additional workers.
fn with_workers(workers: &str) -> talmox_plan::desired::Desired {
    desired(&format!("{HEAD}{HOME}{workers}"))
}

/// A worker that fits its host, and a worker that needs more memory than its host has.
const ONE_TOO_LARGE: &str = "  - {name: wk-3, ip: 10.0.0.23}
  - {name: wk-4, ip: 10.0.0.24, memory: 500G}
";

fn nodes_of_steps(plan: &Plan) -> Vec<&str> {
    let mut nodes: Vec<&str> = plan.steps.iter().filter_map(|step| step.node.as_deref()).collect();
    nodes.sort_unstable();
    nodes.dedup();
    nodes
}

#[test]
fn the_other_nodes_are_created() {
    let plan = plan(&with_workers(ONE_TOO_LARGE), &settled(&home()));
    let text = show::text(&plan);
    assert_eq!((plan.errors().count(), plan.blocking_errors().count()), (1, 0), "{text}");
    assert_eq!(nodes_of_steps(&plan), ["wk-3"], "{text}");
    for change in plan.changes.iter().filter(|change| change.object.node() == Some("wk-4")) {
        assert_eq!((change.is_planned, change.left), (false, Some(Left::Blocked)), "{text}");
    }
    assert!(plan.is_partial(), "{text}");
    let left = show::left(&plan);
    let expected = "vm wk-4 (create): an error about this node prevents it";
    assert!(left.iter().any(|line| line == expected), "{left:?}");
    // The run waits for the health of the nodes that it creates, and not for nodes that are left out.
    let health = plan.steps.iter().find_map(|step| match &step.action {
        Action::AwaitHealth(health) => Some(health),
        _ => None,
    });
    let mut waited = health.unwrap().nodes.iter().map(|node| node.name.as_str());
    assert!(waited.clone().any(|name| name == "wk-3") && waited.all(|name| name != "wk-4"));
    // No step depends on a step that is not in the plan.
    let known = ids(&plan);
    let mut after = plan.steps.iter().flat_map(|step| &step.after);
    assert!(after.all(|id| known.contains(&id.as_str())), "{text}");
}

#[test]
fn nothing_is_done_for_a_single_node_with_an_error() {
    let worker = "  - {name: wk-3, ip: 10.0.0.23, memory: 500G}\n";
    let plan = plan(&with_workers(worker), &settled(&home()));
    let text = show::text(&plan);
    assert!(plan.steps.is_empty() && plan.is_partial(), "{text}");
    assert!(text.contains("no steps for wk-3 because of errors"), "{text}");
    let images = plan.changes.iter().filter(|change| change.object.node().is_none());
    assert!(images.clone().all(|change| !change.is_planned), "{text}");
}

#[test]
fn a_vmid_in_use_prevents_only_its_node() {
    let workers = "  - {name: wk-3, ip: 10.0.0.23}\n  - {name: wk-4, ip: 10.0.0.24, vmid: 303}\n";
    let plan = plan(&with_workers(workers), &settled(&home()));
    let text = show::text(&plan);
    assert_eq!((plan.blocking_errors().count(), plan.node_errors().count()), (0, 1), "{text}");
    assert_eq!(nodes_of_steps(&plan), ["wk-3"], "{text}");
    let left = show::left(&plan);
    assert!(left.iter().any(|line| line.starts_with("node wk-4: ")), "{left:?}");
}

#[test]
fn before_the_bootstrap_every_error_blocks_the_plan() {
    let plan = plan(&with_workers(ONE_TOO_LARGE), &empty());
    let text = show::text(&plan);
    assert_eq!((plan.blocking_errors().count(), plan.node_errors().count()), (1, 0), "{text}");
    assert!(nodes_of_steps(&plan).contains(&"wk-4"), "{text}");
}

#[test]
fn the_json_form_marks_errors_of_a_single_node() {
    let plan = plan(&with_workers(ONE_TOO_LARGE), &settled(&home()));
    let form = show::json(&plan);
    let findings = form["findings"].as_array().unwrap();
    let error = findings.iter().find(|finding| finding["severity"] == "error").unwrap();
    assert_eq!(error["blocks_only_its_node"], true, "{form:#}");
    let warnings = findings.iter().filter(|finding| finding["severity"] == "warning");
    assert!(warnings.clone().all(|finding| finding.get("blocks_only_its_node").is_none()));
}
