//! Nodes that only Kubernetes lists.

use talmox_plan::observed::{Observed, UnknownNode, Unobserved, Unread};
use talmox_plan::plan::{Action, Class, FindingCode, Left, Plan};
use talmox_plan::planning::Scope;

use crate::changes::{class_of, running};
use crate::observed_state::{carry_out, foreign, host, registered, vmid};
use crate::removal::{all, plan_within};
use crate::support::{home, ids};

const UUID: &str = "11111111-2222-4333-8444-555555555555";

/// A running cluster in which Kubernetes also lists wk-9 as not ready, and nothing answers at its address.
fn with_stale_node(change: impl FnOnce(&mut UnknownNode)) -> Observed {
    let mut observed = running(&home());
    let known = registered(&mut observed).unwrap();
    known.nodes.insert("wk-9".to_owned());
    known.unready.insert("wk-9".to_owned());
    let mut node = UnknownNode {
        system_uuid: Some(UUID.to_owned()),
        provider_id: None,
        addresses: vec!["10.0.0.29".parse().unwrap()],
        answer: None,
    };
    change(&mut node);
    known.unknown.insert("wk-9".to_owned(), node);
    observed
}

fn left(plan: &Plan) -> Vec<Option<Left>> {
    let changes = plan.changes.iter().filter(|change| change.object.to_string() == "node wk-9");
    changes.map(|change| change.left).collect()
}

#[test]
fn a_node_whose_machine_is_gone_is_deleted_with_consent() {
    let desired = home();
    let mut observed = with_stale_node(|_| {});
    let kept = plan_within(&desired, &observed, &Scope::default());
    assert_eq!(left(&kept), [Some(Left::NeedsConsent)]);
    assert!(kept.steps.is_empty() && kept.is_partial());
    let deleted = plan_within(&desired, &observed, &all());
    assert_eq!(ids(&deleted), ["node/wk-9/delete", "cluster/health"]);
    assert_eq!(class_of(&deleted, "node wk-9"), Class::Destroy);
    let Action::DeleteNode(step) = &deleted.steps[0].action else { panic!() };
    assert!(step.only_unready);
    carry_out(&desired, &deleted, &mut observed, usize::MAX);
    assert!(plan_within(&desired, &observed, &Scope::default()).is_empty());
}

#[test]
fn a_node_whose_machine_may_exist_is_only_reported() {
    let answers = with_stale_node(|node| node.answer = Some("10.0.0.29, port 10250".to_owned()));
    let mut ready = with_stale_node(|_| {});
    registered(&mut ready).unwrap().unready.clear();
    let without_address = with_stale_node(|node| node.addresses.clear());
    let without_uuid = with_stale_node(|node| node.system_uuid = None);
    let mut with_vm = with_stale_node(|_| {});
    foreign(&mut with_vm, 900, "wk-9", "mine");
    let mut with_provider =
        with_stale_node(|node| node.provider_id = Some("proxmox://home/901".to_owned()));
    foreign(&mut with_provider, 901, "other", "mine");
    let mut unread = with_stale_node(|_| {});
    let reason = Unobserved::Unreachable("the host does not run".to_owned());
    unread.pve.unread.insert(vmid(700), Unread { host: host("pve2"), reason });
    let cases = [answers, ready, without_address, without_uuid, with_vm, with_provider, unread];
    for (number, observed) in cases.iter().enumerate() {
        let plan = plan_within(&home(), observed, &all());
        assert!(left(&plan).is_empty(), "{number}");
        assert!(!ids(&plan).contains(&"node/wk-9/delete"), "{number}");
        let is_reported = plan
            .findings
            .iter()
            .any(|finding| finding.code == FindingCode::NodeUnknown && finding.subject == "wk-9");
        assert!(is_reported, "{number}: {:?}", plan.findings);
    }
}
