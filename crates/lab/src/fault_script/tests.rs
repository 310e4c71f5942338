use std::time::Duration;

use talmox_lab_environment::fault::{Action, Boot, Fault, ImpostorKind, NodeAction, TargetNode};
use tonic::Code;

use super::FaultScript as _;

fn one(entry: &str) -> Fault {
    let text = format!("faults:\n  - {entry}\n");
    Fault::parse("faults.yaml", &text).unwrap().remove(0)
}

fn does(entry: &str) -> NodeAction {
    match one(entry).action {
        Action::Node(action) => action,
        other => panic!("{entry}: {other:?}"),
    }
}

#[test]
fn faults_of_talos_calls_are_parsed() {
    let fault = one("{talos: Bootstrap, node: cp-1, nth: 2, refuse: {code: failed_precondition}}");
    assert_eq!((fault.when.talos.as_deref(), fault.nth), (Some("Bootstrap"), 2));
    assert_eq!(fault.when.node.as_deref(), Some("cp-1"));
    assert!(matches!(fault.action, Action::RejectCall { code: Code::FailedPrecondition, .. }));
    let fault = one("{kube: /api/v1/nodes/*, method: patch, node: 303, hang: true}");
    assert_eq!(
        (fault.when.method.as_deref(), fault.when.node.as_deref()),
        (Some("PATCH"), Some("303"))
    );
    assert_eq!(fault.action, Action::Hang);
}

#[test]
fn faults_of_boots_and_moments_are_parsed() {
    let fault = one("{node: wk-1, stall: true, times: 2}");
    assert_eq!((fault.when.boot, fault.times), (Some(Boot::Bare), Some(2)));
    assert_eq!(one("{node: wk-1, revert: true}").when.boot, Some(Boot::Upgraded));
    assert_eq!(one("{node: wk-1, fill: true}").when.boot, Some(Boot::Any));
    assert_eq!(does("{node: wk-1, clock: -2h}"), NodeAction::Clock(-7200));
    assert_eq!(does("{boot: true, crash: true}"), NodeAction::Crash(TargetNode::This));
    let fault = one("{after: 90s, node: cp-2, unplug: true}");
    assert_eq!(fault.when.after, Some(Duration::from_secs(90)));
    assert_eq!(
        does("{method: POST, freeze: 303}"),
        NodeAction::Freeze(TargetNode::Named("303".into()))
    );
    let slow = NodeAction::Slow(TargetNode::Named("cp-1".into()), Duration::from_secs(20));
    assert_eq!(does("{after: 1s, slow: {node: cp-1, by: 20s}}"), slow);
}

#[test]
fn faults_between_nodes_are_parsed() {
    let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
    let alone = NodeAction::Partition { groups: vec![names(&["cp-3"])], lasts: None };
    assert_eq!(does("{after: 0s, partition: [cp-3]}"), alone);
    let groups = vec![names(&["cp-1"]), names(&["cp-2", "303"])];
    let apart = NodeAction::Partition { groups, lasts: Some(Duration::from_mins(2)) };
    assert_eq!(does("{after: 0s, partition: {groups: [[cp-1], [cp-2, 303]], for: 2m}}"), apart);
    assert_eq!(does("{after: 5m, heal: true}"), NodeAction::Heal);
    let fake = does("{after: 0s, impostor: {node: 10.0.0.11, as: tls}}");
    let at = "10.0.0.11".to_owned();
    assert_eq!(fake, NodeAction::Impostor { at, kind: ImpostorKind::Tls, lasts: None });
}

#[test]
fn invalid_faults_are_rejected_with_a_hint() {
    for (entry, message, hint) in [
        ("{talos: Bootstrp, hang: true}", "no method `Bootstrp`", "did you mean `Bootstrap`?"),
        ("{talos: Nothing, hang: true}", "no method `Nothing`", "known: "),
        ("{talos: \"*\", refuse: {code: Unavailible}}", "no code", "did you mean `Unavailable`?"),
        ("{talos: \"*\", refuse: {status: 500}}", "`refuse` has no `status`", "known: code"),
        ("{path: /x, refuse: {stauts: 500}}", "has no `stauts`", "did you mean `status`?"),
        ("{node: cp-1, crash: true}", "needs a condition", "`boot: true`"),
        ("{after: 5s, crash: true}", "does not name a node", "`crash: cp-1`"),
        (
            "{after: 5s, nth: 2, crash: cp-1}",
            "a fault of a moment cannot have the key `nth`",
            "after, node",
        ),
        ("{talos: \"*\", boot: true, hang: true}", "not `talos` and `boot`", ""),
        ("{boot: 3, crash: true}", "`boot` must be true", ""),
        (
            "{talos: \"*\", path: /x, hang: true}",
            "a fault of Talos calls cannot have the key `path`",
            "talos, node",
        ),
        (
            "{talos: \"*\", stall: true}",
            "`stall` cannot be applied to Talos calls",
            "refuse, delay",
        ),
        ("{path: /x, unstarted: true}", "`unstarted` cannot be applied to", "refuse, delay"),
        ("{task: qmclone, unstarted: 3}", "`unstarted` must be true", ""),
        ("{task: qmclone, cut: after}", "`cut` cannot be applied to tasks", "delay, fail"),
        (
            "{after: 0s, impostor: {node: cp-1, as: talso}}",
            "unknown impostor",
            "did you mean `talos`?",
        ),
        ("{after: 0s, partition: []}", "`partition` must be", ""),
        ("{after: 0s, partition: [[cp-1], cp-2]}", "`partition` must be", ""),
        ("{node: cp-1, clock: late}", "`clock` must be a time", ""),
        ("{node: [cp-1], fill: true}", "the name of a VM, its vmid or an address", ""),
        ("{kube: /api, method: FETCH, hang: true}", "unknown method `FETCH` of a request", "PATCH"),
        ("{boot: true, crsh: true}", "a fault has no `crsh`", "did you mean `crash`?"),
    ] {
        let error = Fault::parse("f.yaml", &format!("faults:\n  - {entry}\n")).unwrap_err();
        assert_eq!(error.line, 2, "{entry}");
        assert!(error.message.contains(message), "{entry}: {error}");
        let given = error.hint.clone().unwrap_or_default();
        assert!(given.contains(hint), "{entry}: {given}");
    }
}

#[test]
fn rules_must_name_existing_objects() {
    use super::Known;

    let names = |names: &[&str]| Some(names.iter().map(|name| (*name).to_owned()).collect());
    let known = Known {
        hosts: names(&["pve1", "pve2"]),
        vmids: Some([301, 302].into()),
        nodes: names(&["cp-1", "wk-1"]),
        addresses: Some(["10.0.0.11".parse().unwrap()].into()),
    };
    let read = |entry: &str, known: &Known| {
        Fault::parse_for("f.yaml", &format!("faults:\n  - {entry}\n"), known)
    };
    for (entry, message) in [
        ("{method: PUT, vmid: 303, cut: after}", "there is no VM `303`"),
        ("{task: qmstart, host: pve3, delay: 1s}", "there is no host `pve3`"),
        ("{method: GET, down: pve3}", "there is no host `pve3`"),
        ("{talos: Bootstrap, node: cp-2, hang: true}", "there is no node `cp-2`"),
        ("{after: 1s, crash: 303}", "there is no VM `303`"),
        ("{after: 1s, partition: [cp-1, wk-2]}", "there is no node `wk-2`"),
        ("{after: 1s, impostor: {node: 10.0.0.12}}", "there is no node `10.0.0.12`"),
    ] {
        let error = read(entry, &known).unwrap_err();
        assert_eq!((error.line, error.message.as_str()), (2, message), "{entry}");
        assert!(error.hint.is_some(), "{entry}");
        assert!(read(entry, &Known::default()).is_ok(), "{entry}");
    }
    for entry in
        ["{boot: true, node: 301, crash: true}", "{after: 0s, impostor: {node: 10.0.0.11}}"]
    {
        assert_eq!(read(entry, &known).unwrap()[0].written.as_deref(), Some("f.yaml:2"), "{entry}");
    }
}
