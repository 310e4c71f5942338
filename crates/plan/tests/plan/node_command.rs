//! Plans of `node reboot`, `shutdown`, `start`, `drain` and `uncordon`.

use std::collections::BTreeSet;
use std::num::NonZeroUsize;

use talmox_plan::desired::Desired;
use talmox_plan::observed::{
    CordonedBy, KubernetesSeen, Observed, Registered, TalosSeen, Unobserved, VmSeen,
};
use talmox_plan::plan::{Action, FindingCode, Plan, Step, StepId};
use talmox_plan::planning::{NodeCommand, node_command};

use crate::observed_state::{empty, settled};
use crate::support::{HEAD, desired, errors, home, home_with, ids, warnings};

const WORKER: [&str; 1] = ["wk-1"];
const ALL: [&str; 5] = ["cp-1", "cp-2", "cp-3", "wk-1", "wk-2"];

fn planned(desired: &Desired, observed: &Observed, command: NodeCommand, nodes: &[&str]) -> Plan {
    planned_with(desired, observed, command, nodes, 1)
}

fn planned_with(
    desired: &Desired,
    observed: &Observed,
    command: NodeCommand,
    nodes: &[&str],
    max_unavailable: usize,
) -> Plan {
    let nodes: BTreeSet<String> = nodes.iter().map(|name| (*name).to_owned()).collect();
    let window = NonZeroUsize::new(max_unavailable).unwrap();
    node_command(desired, observed, command, &nodes, window)
}

/// A running cluster with cp-1 as the etcd leader.
fn running(desired: &Desired) -> Observed {
    let mut observed = settled(desired);
    let nodes = desired.nodes.iter().map(|node| node.name.clone()).collect();
    let registered = Registered { nodes, ..Registered::default() };
    observed.kubernetes = KubernetesSeen::Answers(registered);
    if let Some(TalosSeen::OwnNode(found)) = observed.nodes.get_mut("cp-1") {
        found.is_leader = true;
    }
    observed
}

fn registered(observed: &mut Observed) -> &mut Registered {
    match &mut observed.kubernetes {
        KubernetesSeen::Answers(registered) => registered,
        other => panic!("{other:?}"),
    }
}

fn vm_of<'a>(observed: &'a mut Observed, name: &str) -> &'a mut VmSeen {
    let is_it = |vm: &VmSeen| vm.config.as_ref().is_ok_and(|config| config.name() == Some(name));
    observed.pve.vms.values_mut().find(|vm| is_it(vm)).unwrap()
}

fn stop(observed: &mut Observed, name: &str) {
    vm_of(observed, name).is_running = false;
    observed.nodes.insert(name.to_owned(), TalosSeen::Nothing("no route".to_owned()));
}

fn step<'a>(plan: &'a Plan, id: &str) -> &'a Step {
    plan.steps.iter().find(|step| step.id.as_str() == id).unwrap()
}

fn after<'a>(plan: &'a Plan, id: &str) -> Vec<&'a str> {
    step(plan, id).after.iter().map(StepId::as_str).collect()
}

fn codes(plan: &Plan) -> Vec<FindingCode> {
    plan.errors().map(|finding| finding.code).collect()
}

#[test]
fn a_reboot_of_all_nodes_takes_workers_first_and_the_leader_last() {
    let desired = home();
    let observed = running(&desired);
    let plan = planned(&desired, &observed, NodeCommand::Reboot, &ALL);
    assert_eq!(errors(&plan), [""; 0]);
    let chain = |name: &str| {
        [
            format!("node/{name}/drain"),
            format!("talos/{name}/reboot"),
            format!("talos/{name}/return"),
            format!("node/{name}/uncordon"),
        ]
    };
    let order = ["wk-1", "wk-2", "cp-2", "cp-3", "cp-1"];
    assert_eq!(ids(&plan), order.map(chain).concat());
    assert_eq!(after(&plan, "node/wk-1/drain"), [""; 0]);
    assert_eq!(after(&plan, "node/wk-2/drain"), ["node/wk-1/uncordon"]);
    let workers = ["node/wk-1/uncordon", "node/wk-2/uncordon"];
    assert_eq!(after(&plan, "node/cp-2/drain"), workers);
    assert_eq!(after(&plan, "node/cp-1/drain"), ["node/cp-3/uncordon"]);
    assert_eq!(after(&plan, "talos/wk-1/return"), ["talos/wk-1/reboot"]);
    for (name, count) in [("wk-1", 0), ("cp-1", 3)] {
        let Action::RebootNode(reboot) = &step(&plan, &format!("talos/{name}/reboot")).action
        else {
            panic!("{name}");
        };
        assert_eq!(reboot.control_planes.len(), count, "{name}");
    }
    let two = planned_with(&desired, &observed, NodeCommand::Reboot, &ALL, 2);
    assert_eq!(after(&two, "node/wk-2/drain"), [""; 0]);
    assert_eq!(after(&two, "node/cp-2/drain"), workers, "control planes go one by one");
    assert_eq!(after(&two, "node/cp-3/drain"), ["node/cp-2/uncordon"]);
}

#[test]
fn pods_are_evicted_only_if_another_node_can_run_them() {
    let evicts = |desired: &Desired, observed: &Observed, command, nodes: &[&str], id: &str| {
        let plan = planned(desired, observed, command, nodes);
        match &step(&plan, id).action {
            Action::DrainNode(drain) => drain.evicts,
            other => panic!("{other:?}"),
        }
    };
    let desired = home();
    let mut observed = running(&desired);
    let (reboot, shutdown) = (NodeCommand::Reboot, NodeCommand::Shutdown);
    assert!(evicts(&desired, &observed, reboot, &["wk-1", "wk-2"], "node/wk-1/drain"));
    // Both workers stay down, and control planes do not run these pods.
    assert!(!evicts(&desired, &observed, shutdown, &["wk-1", "wk-2"], "node/wk-1/drain"));
    registered(&mut observed).unready.insert("wk-2".to_owned());
    assert!(!evicts(&desired, &observed, reboot, &WORKER, "node/wk-1/drain"));
    registered(&mut observed).unready.clear();
    registered(&mut observed).cordoned.insert("wk-2".to_owned(), CordonedBy::Other);
    assert!(!evicts(&desired, &observed, reboot, &WORKER, "node/wk-1/drain"));
    // `drain` always evicts the pods, because the user requested it.
    assert!(evicts(&desired, &observed, NodeCommand::Drain, &WORKER, "node/wk-1/drain"));
    let (head, _) = crate::support::HOME.split_once("workers:").unwrap();
    let without_workers = self::desired(&format!("{HEAD}{head}"));
    let observed = running(&without_workers);
    assert!(evicts(&without_workers, &observed, reboot, &["cp-2"], "node/cp-2/drain"));
}

#[test]
fn a_node_that_is_shut_down_stays_cordoned_until_it_is_started() {
    let desired = home();
    let mut observed = running(&desired);
    let plan = planned(&desired, &observed, NodeCommand::Shutdown, &WORKER);
    assert_eq!(ids(&plan), ["node/wk-1/drain", "vm/wk-1/shutdown"]);
    let nothing = planned(&desired, &observed, NodeCommand::Start, &WORKER);
    assert!(nothing.is_empty() && nothing.findings.is_empty(), "{nothing:?}");

    stop(&mut observed, "wk-1");
    let nothing = planned(&desired, &observed, NodeCommand::Shutdown, &WORKER);
    assert!(nothing.is_empty() && nothing.findings.is_empty(), "{nothing:?}");
    let plan = planned(&desired, &observed, NodeCommand::Start, &WORKER);
    assert_eq!(ids(&plan), ["vm/wk-1/start", "talos/wk-1/return", "node/wk-1/uncordon"]);
    let Action::UncordonNode(uncordon) = &step(&plan, "node/wk-1/uncordon").action else {
        panic!("{plan:?}");
    };
    assert!(uncordon.awaits_ready && !uncordon.is_asked);

    // A VM that was started by hand is still cordoned.
    let mut observed = running(&desired);
    registered(&mut observed).cordoned.insert("wk-1".to_owned(), CordonedBy::Talmox);
    let plan = planned(&desired, &observed, NodeCommand::Start, &WORKER);
    assert_eq!(ids(&plan), ["talos/wk-1/return", "node/wk-1/uncordon"]);
    registered(&mut observed).cordoned.insert("wk-1".to_owned(), CordonedBy::Other);
    assert!(planned(&desired, &observed, NodeCommand::Start, &WORKER).is_empty());
}

#[test]
fn etcd_keeps_its_quorum() {
    let desired = home();
    let observed = running(&desired);
    let needed = [FindingCode::ControlPlaneNeeded];
    let shut = |observed: &Observed, nodes: &[&str]| {
        planned(&desired, observed, NodeCommand::Shutdown, nodes)
    };
    let one = shut(&observed, &["cp-2", "wk-1", "wk-2"]);
    assert_eq!(errors(&one), [""; 0]);
    let Action::ShutdownNode(shutdown) = &step(&one, "vm/cp-2/shutdown").action else {
        panic!("{one:?}");
    };
    assert_eq!(shutdown.control_planes.len(), 3);
    let two = shut(&observed, &["cp-2", "cp-3"]);
    assert_eq!(
        errors(&two),
        ["cp-2: only one control plane can be shut down at a time, not 2: cp-2, cp-3"]
    );
    let all = shut(&observed, &["cp-1", "cp-2", "cp-3"]);
    let message = "cp-1: no control plane would be left, and other nodes would still run";
    assert_eq!(errors(&all), [message]);

    let mut observed = running(&desired);
    stop(&mut observed, "cp-3");
    for command in [NodeCommand::Reboot, NodeCommand::Shutdown] {
        let plan = planned(&desired, &observed, command, &["cp-2"]);
        assert_eq!(codes(&plan), needed, "{command:?}");
        assert!(errors(&plan)[0].starts_with("cp-2: cp-3 does not answer"), "{plan:?}");
        let worker = planned(&desired, &observed, command, &WORKER);
        assert_eq!(errors(&worker), [""; 0], "{command:?}");
    }
    // cp-3 is already down and stays down, so cp-2 must not go down.
    assert_eq!(codes(&shut(&observed, &["cp-2", "cp-3"])), needed);

    let pair = home_with("  - {name: cp-3, ip: 10.0.0.13, vmid: 302}\n", "");
    let observed = running(&pair);
    for command in [NodeCommand::Reboot, NodeCommand::Shutdown] {
        assert_eq!(codes(&planned(&pair, &observed, command, &["cp-2"])), needed, "{command:?}");
    }
    let single = crate::support::single("cores: 2");
    let observed = running(&single);
    let reboot = planned(&single, &observed, NodeCommand::Reboot, &["cp-1"]);
    assert_eq!(errors(&reboot), [""; 0], "a single control plane has no quorum to keep");
}

#[test]
fn a_whole_cluster_goes_down_and_comes_up() {
    let desired = home();
    let mut observed = running(&desired);
    let down = planned(&desired, &observed, NodeCommand::Shutdown, &ALL);
    assert_eq!(errors(&down), [""; 0]);
    let order = ["wk-1", "wk-2", "cp-2", "cp-3", "cp-1"];
    assert_eq!(ids(&down), order.map(|name| format!("vm/{name}/shutdown")));
    assert_eq!(after(&down, "vm/wk-2/shutdown"), [""; 0]);
    assert_eq!(after(&down, "vm/cp-2/shutdown"), ["vm/wk-1/shutdown", "vm/wk-2/shutdown"]);
    assert_eq!(after(&down, "vm/cp-1/shutdown"), ["vm/cp-3/shutdown"]);
    for step in &down.steps {
        let Action::ShutdownNode(shutdown) = &step.action else { panic!("{step:?}") };
        assert!(shutdown.control_planes.is_empty(), "nothing is left that needs a quorum");
    }

    // A VM on a host that is down does not prevent the shutdown of the other nodes.
    let mut partial = running(&desired);
    vm_of(&mut partial, "wk-2").config = Err(Unobserved::Unreachable("no route".to_owned()));
    let down = planned(&desired, &partial, NodeCommand::Shutdown, &ALL);
    assert_eq!((errors(&down), down.steps.len()), (vec![], 4));
    assert!(warnings(&down)[0].starts_with("wk-2: "), "{:?}", down.findings);
    assert_eq!(
        codes(&planned(&desired, &partial, NodeCommand::Reboot, &["wk-2"])),
        [FindingCode::VmUnreadable]
    );

    for name in ALL {
        stop(&mut observed, name);
    }
    observed.kubernetes = KubernetesSeen::NotAsked;
    let up = planned(&desired, &observed, NodeCommand::Start, &ALL);
    assert_eq!((errors(&up), up.steps.len()), (vec![], 15));
    let started = ["vm/cp-1/start", "vm/cp-2/start", "vm/cp-3/start"];
    for id in started {
        assert_eq!(after(&up, id), [""; 0], "etcd needs a majority");
    }
    assert_eq!(after(&up, "vm/wk-2/start"), started);
}

#[test]
fn drain_and_uncordon_need_kubernetes_only() {
    let desired = home();
    let mut observed = running(&desired);
    stop(&mut observed, "wk-2");
    let plan = planned(&desired, &observed, NodeCommand::Drain, &["wk-1", "wk-2"]);
    assert_eq!(ids(&plan), ["node/wk-1/drain", "node/wk-2/drain"]);
    assert_eq!(after(&plan, "node/wk-2/drain"), ["node/wk-1/drain"]);
    let nothing = planned(&desired, &observed, NodeCommand::Uncordon, &ALL);
    assert!(nothing.is_empty() && nothing.findings.is_empty(), "{nothing:?}");
    for by in [CordonedBy::Talmox, CordonedBy::Other] {
        registered(&mut observed).cordoned.insert("wk-1".to_owned(), by);
        let plan = planned(&desired, &observed, NodeCommand::Uncordon, &ALL);
        assert_eq!(ids(&plan), ["node/wk-1/uncordon"]);
        let Action::UncordonNode(uncordon) = &plan.steps[0].action else { panic!("{plan:?}") };
        assert!(uncordon.is_asked && !uncordon.awaits_ready);
    }
    registered(&mut observed).nodes.remove("wk-1");
    for command in [NodeCommand::Drain, NodeCommand::Uncordon] {
        let plan = planned(&desired, &observed, command, &WORKER);
        assert_eq!(codes(&plan), [FindingCode::NodeUnregistered], "{command:?}");
    }
    observed.kubernetes = KubernetesSeen::Silent("connection refused".to_owned());
    for command in [NodeCommand::Drain, NodeCommand::Uncordon] {
        let plan = planned(&desired, &observed, command, &WORKER);
        assert_eq!(
            errors(&plan),
            ["home: the Kubernetes API does not answer: connection refused"],
            "{command:?}"
        );
    }
}

#[test]
fn nodes_that_a_command_cannot_use_are_findings() {
    let desired = home();
    let observed = running(&desired);
    let unknown = planned(&desired, &observed, NodeCommand::Start, &["wk-9"]);
    assert_eq!(codes(&unknown), [FindingCode::NodeNotListed]);
    for command in [NodeCommand::Reboot, NodeCommand::Start] {
        let absent = planned(&desired, &empty(), command, &WORKER);
        assert_eq!(codes(&absent), [FindingCode::VmMissing], "{command:?}");
    }
    let absent = planned(&desired, &empty(), NodeCommand::Shutdown, &WORKER);
    assert!(absent.is_empty() && absent.findings.is_empty(), "{absent:?}");

    let mut observed = running(&desired);
    stop(&mut observed, "wk-1");
    let stopped = planned(&desired, &observed, NodeCommand::Reboot, &WORKER);
    assert_eq!(codes(&stopped), [FindingCode::VmStopped]);
    vm_of(&mut observed, "wk-1").is_running = true;
    let silent = planned(&desired, &observed, NodeCommand::Reboot, &WORKER);
    assert_eq!(codes(&silent), [FindingCode::NodeDown]);
    assert!(silent.findings.iter().all(|finding| finding.hint.is_some()));
    // Proxmox stops the VM of a node that does not answer.
    let plan = planned(&desired, &observed, NodeCommand::Shutdown, &WORKER);
    assert_eq!(ids(&plan), ["node/wk-1/drain", "vm/wk-1/shutdown"]);
}

#[test]
fn a_node_is_not_drained_while_kubernetes_does_not_answer() {
    let desired = home();
    let mut observed = running(&desired);
    observed.kubernetes = KubernetesSeen::Silent("connection refused".to_owned());
    let plan = planned(&desired, &observed, NodeCommand::Reboot, &["cp-2"]);
    assert_eq!(ids(&plan), ["talos/cp-2/reboot", "talos/cp-2/return"]);
    let message =
        "cp-2: it is not drained, because the Kubernetes API does not answer: connection refused";
    assert_eq!((errors(&plan), warnings(&plan)), (vec![], vec![message.to_owned()]));
}

#[test]
fn nodes_with_another_system_are_restarted_by_proxmox() {
    let desired = self::desired(&format!(
        "{HEAD}machine: {{os: ubuntu, image: {{url: 'https://example.org/noble.img'}}}}\n\
         controlplane: [{{name: u-1, ip: 10.0.0.31}}]\n"
    ));
    let mut observed = settled(&desired);
    let plan = planned(&desired, &observed, NodeCommand::Reboot, &["u-1"]);
    assert_eq!(ids(&plan), ["vm/u-1/shutdown", "vm/u-1/start", "ubuntu/u-1/up"]);
    assert_eq!((errors(&plan), warnings(&plan)), (vec![], vec![]));
    let Action::ShutdownNode(shutdown) = &plan.steps[0].action else { panic!("{plan:?}") };
    assert!(shutdown.talos.is_none());
    assert!(planned(&desired, &observed, NodeCommand::Start, &["u-1"]).is_empty());
    vm_of(&mut observed, "u-1").is_running = false;
    let plan = planned(&desired, &observed, NodeCommand::Start, &["u-1"]);
    assert_eq!(ids(&plan), ["vm/u-1/start", "ubuntu/u-1/up"]);
}
