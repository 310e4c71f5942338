//! The order in which nodes are changed.

use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroUsize;

use talmox_plan::desired::Desired;
use talmox_plan::observed::{CordonedBy, Observed, TalosSeen};
use talmox_plan::plan::{Action, Class, Left, Plan, show};
use talmox_plan::planning::{Part, PlanOptions, Scope, plan_within};

use crate::changes::running;
use crate::observed_state::{carry_out, registered, settled, vmid};
use crate::support::{HEAD, desired, home, home_with, ids, plan, single};

/// A cluster with this number of control planes and workers, and this memory for each.
fn cluster(control_planes: u8, workers: u8, memory: &str) -> Desired {
    let nodes = |name: &str, from: u8, count: u8| {
        let node = |index: u8| {
            format!(
                "  - {{name: {name}-{index}, ip: 10.0.0.{}, vmid: {}}}\n",
                from + index,
                300 + u32::from(from + index)
            )
        };
        (1..=count).map(node).collect::<String>()
    };
    let workers = match workers {
        0 => String::new(),
        count => format!("workers:\n{}", nodes("wk", 40, count)),
    };
    desired(&format!(
        "{HEAD}machine: {{memory: {memory}}}\ncontrolplane:\n{}{workers}",
        nodes("cp", 10, control_planes)
    ))
}

fn within(desired: &Desired, observed: &Observed, scope: &Scope) -> Plan {
    let options = PlanOptions { has_client_files: true, was_up: true, was_bootstrapped: false };
    plan_within(desired, observed, options, scope)
}

fn window(size: usize) -> Scope {
    Scope { max_unavailable: NonZeroUsize::new(size).unwrap(), ..Scope::default() }
}

/// The steps that a step depends on.
fn after<'a>(plan: &'a Plan, id: &str) -> Vec<&'a str> {
    let step = plan.steps.iter().find(|step| step.id.as_str() == id);
    let step = step.unwrap_or_else(|| panic!("{id}: {:?}", ids(plan)));
    step.after.iter().map(talmox_plan::plan::StepId::as_str).collect()
}

/// The steps that the change of a node depends on.
fn before<'a>(plan: &'a Plan, node: &str) -> Vec<&'a str> {
    after(plan, &format!("node/{node}/drain"))
}

fn leads(observed: &mut Observed, node: &str) {
    let Some(TalosSeen::OwnNode(found)) = observed.nodes.get_mut(node) else { panic!("{node}") };
    found.is_leader = true;
}

#[test]
fn workers_are_changed_one_by_one_after_the_first() {
    let observed = running(&cluster(3, 4, "4G"));
    let plan = plan(&cluster(3, 4, "5G"), &observed);
    assert_eq!(before(&plan, "wk-1"), Vec::<&str>::new());
    for (node, earlier) in [("wk-2", "wk-1"), ("wk-3", "wk-2"), ("wk-4", "wk-3")] {
        assert_eq!(before(&plan, node), [format!("node/{earlier}/uncordon")], "{node}");
    }
    assert_eq!(before(&plan, "cp-1"), ["node/wk-4/uncordon"]);
}

#[test]
fn three_workers_are_changed_at_a_time_with_a_window_of_three() {
    let observed = running(&cluster(1, 8, "4G"));
    let plan = within(&cluster(1, 8, "5G"), &observed, &window(3));
    let canary = vec!["node/wk-1/uncordon"];
    for node in ["wk-2", "wk-3", "wk-4"] {
        assert_eq!(before(&plan, node), canary, "{node}");
    }
    // A worker that does not come back stops all later workers.
    let ends =
        |nodes: &[u8]| nodes.iter().map(|n| format!("node/wk-{n}/uncordon")).collect::<Vec<_>>();
    assert_eq!(before(&plan, "wk-5"), ends(&[2]));
    assert_eq!(before(&plan, "wk-6"), ends(&[2, 3]));
    assert_eq!(before(&plan, "wk-7"), ends(&[2, 3, 4]));
    assert_eq!(before(&plan, "wk-8"), ends(&[3, 4, 5]));
    assert_eq!(before(&plan, "cp-1"), ends(&[6, 7, 8]));
}

#[test]
fn never_more_workers_are_down_than_allowed() {
    let observed = running(&cluster(1, 9, "4G"));
    for size in 1..5 {
        let plan = within(&cluster(1, 9, "5G"), &observed, &window(size));
        // The workers that can change at the same time: those that do not depend on each other.
        let mut waits: Vec<(String, BTreeSet<String>)> = vec![];
        for step in &plan.steps {
            let mut all: BTreeSet<String> = BTreeSet::new();
            for earlier in &step.after {
                all.insert(earlier.to_string());
                let known = waits.iter().find(|(id, _)| id == earlier.as_str());
                all.extend(known.into_iter().flat_map(|(_, all)| all.clone()));
            }
            waits.push((step.id.to_string(), all));
        }
        let drains =
            waits.iter().filter(|(id, _)| id.starts_with("node/wk-") && id.ends_with("/drain"));
        for (at, (id, all)) in drains.enumerate() {
            let done = all.iter().filter(|id| id.ends_with("/uncordon")).count();
            let expected = if at == 0 { 0 } else { (at + 1).saturating_sub(size).max(1) };
            assert_eq!(done, expected, "{id} with {size}");
        }
    }
}

/// A worker starts when another worker is done, so the first worker and ten others follow each other.
#[test]
fn fifty_workers_take_no_more_turns_than_the_window_needs() {
    let observed = running(&cluster(1, 50, "4G"));
    let plan = within(&cluster(1, 50, "5G"), &observed, &window(5));
    // For each step, the number of workers that follow each other up to the step.
    let mut turns: BTreeMap<&str, usize> = BTreeMap::new();
    for step in &plan.steps {
        let earlier = step.after.iter().filter_map(|id| turns.get(id.as_str())).max();
        let own = usize::from(matches!(step.action, Action::DrainNode(_)));
        let all = earlier.copied().unwrap_or_default() + own;
        turns.insert(step.id.as_str(), all);
    }
    let workers = turns.iter().filter(|(id, _)| id.starts_with("node/wk-"));
    assert_eq!(workers.map(|(_, turns)| *turns).max(), Some(11));
}

#[test]
fn control_planes_are_changed_one_by_one_and_the_leader_last() {
    let mut observed = running(&cluster(3, 0, "4G"));
    leads(&mut observed, "cp-1");
    let plan = within(&cluster(3, 0, "5G"), &observed, &window(3));
    assert_eq!(before(&plan, "cp-2"), Vec::<&str>::new(), "the canary");
    assert_eq!(before(&plan, "cp-3"), ["node/cp-2/uncordon"]);
    assert_eq!(before(&plan, "cp-1"), ["node/cp-3/uncordon"]);
    let members = plan.steps.iter().filter_map(|step| match &step.action {
        Action::ShutdownNode(shutdown) => Some(shutdown.control_planes.len()),
        _ => None,
    });
    assert_eq!(members.collect::<Vec<_>>(), [3, 3, 3], "each looks at etcd first");
}

#[test]
fn live_changes_have_no_order() {
    let observed = running(&home());
    let text = format!("{HEAD}machine: {{tags: [blue]}}{}", crate::support::HOME);
    let plan = plan(&desired(&text), &observed);
    assert_eq!(ids(&plan).len(), 5);
    assert!(plan.steps.iter().all(|step| step.after.is_empty()), "{:?}", ids(&plan));
}

#[test]
fn repairs_come_first() {
    let mut observed = running(&cluster(3, 3, "4G"));
    observed.pve.vms.get_mut(&vmid(342)).unwrap().is_running = false;
    observed.nodes.insert("wk-2".to_owned(), TalosSeen::Nothing("timed out".to_owned()));
    let plan = plan(&cluster(3, 3, "5G"), &observed);
    assert_eq!(after(&plan, "vm/wk-2/start"), ["vm/wk-2/change"]);
    assert_eq!(before(&plan, "wk-1"), ["talos/wk-2/join"]);
    assert_eq!(before(&plan, "wk-3"), ["node/wk-1/uncordon"]);
    assert!(!ids(&plan).contains(&"node/wk-2/drain"));
}

#[test]
fn pods_are_evicted_only_if_another_node_can_run_them() {
    let evicts = |old: &Desired, new: &Desired, node: &str| {
        let plan = plan(new, &running(old));
        let drains = plan.steps.iter().find_map(|step| match &step.action {
            Action::DrainNode(drain) if drain.node == node => Some(drain.evicts),
            _ => None,
        });
        drains.unwrap()
    };
    assert!(!evicts(&single("memory: 4G"), &single("memory: 5G"), "cp-1"));
    assert!(evicts(&cluster(3, 2, "4G"), &cluster(3, 2, "5G"), "wk-1"));
    assert!(
        !evicts(&cluster(3, 1, "4G"), &cluster(3, 1, "5G"), "wk-1"),
        "control planes are tainted"
    );
    assert!(evicts(&cluster(3, 1, "4G"), &cluster(3, 1, "5G"), "cp-1"));
}

#[test]
fn a_run_can_be_limited_to_nodes_and_parts() {
    let observed = running(&cluster(1, 3, "4G"));
    let changed = cluster(1, 3, "5G");
    let only = Scope { nodes: Some(BTreeSet::from(["wk-2".to_owned()])), ..Scope::default() };
    let one = within(&changed, &observed, &only);
    assert!(ids(&one).iter().all(|id| id.contains("/wk-2/")), "{:?}", ids(&one));
    assert_eq!(before(&one, "wk-2"), Vec::<&str>::new());
    let left = one.changes.iter().filter(|change| change.left == Some(Left::NotSelected));
    assert_eq!(left.count(), 3, "{}", show::text(&one));
    let configs = Scope { only: Some(Part::Configs), ..Scope::default() };
    let none = within(&changed, &observed, &configs);
    assert!(none.steps.is_empty(), "{:?}", ids(&none));
    assert_eq!(none.open_changes().count(), 4);
}

#[test]
fn a_node_that_a_killed_run_left_cordoned_is_uncordoned() {
    let desired = home();
    let mut observed = running(&desired);
    let cordoned = &mut registered(&mut observed).unwrap().cordoned;
    cordoned.insert("wk-1".to_owned(), CordonedBy::Talmox);
    cordoned.insert("wk-2".to_owned(), CordonedBy::Other);
    let healed = plan(&desired, &observed);
    assert_eq!(ids(&healed), ["node/wk-1/uncordon", "cluster/health"]);
    assert_eq!((healed.changes.len(), healed.changes[0].class), (1, Class::Live));
    assert_eq!(healed.changes[0].fields[0].path, "cordoned");
    let mut after_run = observed.clone();
    carry_out(&desired, &healed, &mut after_run, usize::MAX);
    assert!(plan(&desired, &after_run).is_empty());

    // The run was killed while the VM was stopped.
    observed.pve.vms.get_mut(&vmid(303)).unwrap().is_running = false;
    let stopped = plan(&desired, &observed);
    assert_eq!(after(&stopped, "node/wk-1/uncordon"), ["talos/wk-1/join"]);
}

#[test]
fn nodes_that_kubernetes_does_not_list_register_before_they_are_drained() {
    let mut observed = running(&cluster(3, 2, "4G"));
    registered(&mut observed).unwrap().nodes.remove("wk-1");
    let plan = plan(&cluster(3, 2, "5G"), &observed);
    assert_eq!(after(&plan, "node/wk-1/drain"), ["node/wk-1/register"]);
    assert_eq!(before(&plan, "wk-2"), ["node/wk-1/uncordon"]);
}

#[test]
fn an_executed_rollout_leaves_nothing_to_do() {
    let mut observed = settled(&cluster(3, 5, "4G"));
    let changed = cluster(3, 5, "5G");
    let first = within(&changed, &observed, &window(2));
    carry_out(&changed, &first, &mut observed, usize::MAX);
    let second = plan(&changed, &observed);
    assert!(second.is_empty(), "{}", show::text(&second));
}

/// A worker is stopped, the VM of a control plane is lost, and another worker gets an option that a running VM accepts at once.
#[test]
fn changes_of_running_vms_come_after_all_repairs() {
    let mut observed = running(&home());
    observed.pve.vms.get_mut(&vmid(303)).unwrap().is_running = false;
    observed.pve.vms.remove(&vmid(301)).unwrap();
    observed.pve.resources.guests.retain(|guest| guest.vmid != vmid(301));
    for name in ["wk-1", "cp-2"] {
        observed.nodes.insert(name.to_owned(), TalosSeen::Nothing("no route".to_owned()));
    }
    let changed = home_with("ip: 10.0.0.22}", "ip: 10.0.0.22, tags: [blue]}");
    let plan = within(&changed, &observed, &Scope::default());
    let after = after(&plan, "vm/wk-2/change");
    assert!(after.contains(&"talos/wk-1/join") && after.contains(&"talos/cp-2/join"), "{after:?}");
}
