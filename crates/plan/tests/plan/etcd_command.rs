//! Plans of `etcd remove-member`, `defrag` and `alarms --disarm`.

use std::collections::BTreeSet;

use talmox_plan::desired::Desired;
use talmox_plan::observed::{EtcdSeen, Observed, TalosSeen};
use talmox_plan::plan::{Action, FindingCode, Plan};
use talmox_plan::planning::{defragment, disarm_alarms, remove_member};

use crate::observed_state::{empty, settled};
use crate::support::{errors, home, ids, warnings};

fn silence(observed: &mut Observed, name: &str) {
    observed.nodes.insert(name.to_owned(), TalosSeen::Nothing("no route".to_owned()));
}

fn codes(plan: &Plan) -> Vec<FindingCode> {
    plan.errors().map(|finding| finding.code).collect()
}

fn control_planes(desired: &Desired) -> BTreeSet<String> {
    desired.control_planes().map(|node| node.name.clone()).collect()
}

#[test]
fn only_a_member_whose_control_plane_is_gone_is_removed() {
    let desired = home();
    let mut observed = settled(&desired);
    let living = remove_member(&desired, &observed, "cp-2");
    assert_eq!(codes(&living), [FindingCode::EtcdMemberInUse]);
    let hint = living.findings[0].hint.as_ref().unwrap();
    assert!(hint.contains("`talmox node replace cp-2`") && !hint.contains("talosctl"), "{hint}");

    // A member whose name no node of the inventory has.
    let stale = remove_member(&desired, &observed, "cp-9");
    assert_eq!((errors(&stale), warnings(&stale)), (vec![], vec![]));
    assert_eq!(ids(&stale), ["etcd/cp-9/leave"]);
    let Action::RemoveMember(remove) = &stale.steps[0].action else { panic!("{stale:?}") };
    assert_eq!((remove.member.as_str(), remove.others.len()), ("cp-9", 3));
    assert!(remove.node.is_none());

    silence(&mut observed, "cp-2");
    let dead = remove_member(&desired, &observed, "cp-2");
    assert_eq!(errors(&dead), [""; 0]);
    assert!(warnings(&dead)[0].contains("its VM exists"), "{dead:?}");
    let Action::RemoveMember(remove) = &dead.steps[0].action else { panic!("{dead:?}") };
    let others: Vec<&str> = remove.others.iter().map(|node| node.name.as_str()).collect();
    assert_eq!(others, ["cp-1", "cp-3"]);
    assert!(remove.node.is_some());

    for name in ["cp-1", "cp-3"] {
        silence(&mut observed, name);
    }
    assert_eq!(codes(&remove_member(&desired, &observed, "cp-2")), [FindingCode::EtcdMemberInUse]);
}

#[test]
fn members_are_defragmented_one_after_the_other() {
    let desired = home();
    let mut observed = settled(&desired);
    if let Some(TalosSeen::OwnNode(found)) = observed.nodes.get_mut("cp-1") {
        found.is_leader = true;
    }
    let all = control_planes(&desired);
    let plan = defragment(&desired, &observed, &all);
    assert_eq!(ids(&plan), ["etcd/cp-2/defrag", "etcd/cp-3/defrag", "etcd/cp-1/defrag"]);
    for pair in plan.steps.windows(2) {
        assert_eq!(pair[1].after, [pair[0].id.clone()]);
    }
    assert_eq!(errors(&plan), [""; 0]);
    let one = defragment(&desired, &observed, &BTreeSet::from(["cp-3".to_owned()]));
    assert_eq!(ids(&one), ["etcd/cp-3/defrag"]);

    if let Some(TalosSeen::OwnNode(found)) = observed.nodes.get_mut("cp-2") {
        found.etcd = EtcdSeen::Waiting;
    }
    let plan = defragment(&desired, &observed, &BTreeSet::from(["cp-3".to_owned()]));
    assert_eq!(errors(&plan), ["cp-2: its etcd does not answer"]);
}

#[test]
fn alarms_are_cleared_through_a_member_that_answers() {
    let desired = home();
    let mut observed = settled(&desired);
    silence(&mut observed, "cp-1");
    let plan = disarm_alarms(&desired, &observed);
    assert_eq!(ids(&plan), ["etcd/disarm"]);
    let Action::DisarmAlarms(disarm) = &plan.steps[0].action else { panic!("{plan:?}") };
    let nodes: Vec<&str> = disarm.nodes.iter().map(|node| node.name.as_str()).collect();
    assert_eq!(nodes, ["cp-1", "cp-2", "cp-3"]);
    for name in nodes {
        silence(&mut observed, name);
    }
    assert_eq!(codes(&disarm_alarms(&desired, &observed)), [FindingCode::EtcdUnhealthy]);
    assert_eq!(codes(&disarm_alarms(&desired, &empty())), [FindingCode::EtcdUnhealthy]);
}
