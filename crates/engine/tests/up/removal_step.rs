//! Single steps that remove a node from the cluster: their changes, and their behaviour if they run again, are killed, or
//! cannot be carried out safely.

use std::collections::BTreeSet;

use talmox_engine::execute::StepResult;
use talmox_engine::step::{Cut, Moment, StepCode};
use talmox_plan::plan::{Plan, StepId};
use talmox_plan::planning::{RemovalConsent, Scope};

use super::inventory::{home, pair};
use super::rig::{CompletedRun, Rig, once};
use super::versions::{
    PVE_8_TALOS_11, PVE_8_TALOS_12, PVE_8_TALOS_13, PVE_9_TALOS_11, PVE_9_TALOS_12, PVE_9_TALOS_13,
    Versions, each,
};

const CP_3: &str = "  - {name: cp-3, ip: 10.0.0.13}\n";

/// The plan that removes the nodes that `text` lacks, reduced to one step.
async fn only(rig: &Rig, text: &str, step: &str) -> Plan {
    let scope = Scope { removal: RemovalConsent::All, ..Scope::default() };
    let mut plan = rig.plan_within(text, &scope).await;
    plan.steps.retain(|one| one.id.as_str() == step);
    assert_eq!(plan.steps.len(), 1, "{step}");
    plan
}

async fn run(rig: &Rig, plan: &Plan, text: &str) -> CompletedRun {
    rig.carry_out(plan.clone(), text, None).await
}

fn result(ran: &CompletedRun) -> &StepResult {
    &ran.outcome.steps[0].1
}

/// The members of etcd according to these nodes, whose lists must be the same.
async fn members(rig: &Rig, addresses: &[&str]) -> BTreeSet<String> {
    let mut lists = vec![];
    for address in addresses {
        let members = rig.talos(address.parse().unwrap()).etcd_members().await.unwrap();
        lists.push(members.into_iter().map(|member| member.hostname).collect::<BTreeSet<_>>());
    }
    assert!(lists.windows(2).all(|pair| pair[0] == pair[1]), "{lists:?}");
    lists.remove(0)
}

fn names(names: &[&str]) -> BTreeSet<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

/// A user stops the VM of a node.
async fn stop(rig: &Rig, name: &str) {
    let guests = rig.guests().await;
    let guest = guests.iter().find(|guest| guest.name.as_deref() == Some(name)).unwrap();
    rig.stop_vm(guest.vmid.get()).await;
}

async fn started(versions: Versions) -> (Rig, String) {
    let rig = Rig::of(versions.lab_options());
    let text = versions.inventory(&home());
    rig.up(&text).await.assert_done();
    (rig, text.replace(CP_3, ""))
}

/// A cluster with one control plane and one worker, and its inventory without the worker.
async fn pair_started(versions: Versions) -> (Rig, String) {
    let rig = Rig::of(versions.lab_options());
    let text = versions.inventory(&pair());
    rig.up(&text).await.assert_done();
    (rig, text.replace("workers:\n  - {name: wk-1, ip: 10.0.0.21}\n", ""))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_member_leaves_once() {
    each(&[PVE_9_TALOS_11], a_member_leaves_once_on).await;
}

async fn a_member_leaves_once_on(versions: Versions) {
    let (rig, text) = started(versions).await;
    let plan = only(&rig, &text, "etcd/cp-3/leave").await;
    let ran = run(&rig, &plan, &text).await;
    assert!(matches!(result(&ran), StepResult::Done), "{}", ran.failures());
    assert_eq!(members(&rig, &["10.0.0.11", "10.0.0.12"]).await, names(&["cp-1", "cp-2"]));
    let again = run(&rig, &plan, &text).await;
    assert!(matches!(result(&again), StepResult::Already), "{}", again.failures());
    rig.watcher.assert_none();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dead_member_is_removed_by_its_id() {
    each(&[PVE_8_TALOS_12], a_dead_member_is_removed_by_its_id_on).await;
}

async fn a_dead_member_is_removed_by_its_id_on(versions: Versions) {
    let (rig, text) = started(versions).await;
    let plan = only(&rig, &text, "etcd/cp-3/leave").await;
    stop(&rig, "cp-3").await;
    let ran = run(&rig, &plan, &text).await;
    assert!(matches!(result(&ran), StepResult::Done), "{}", ran.failures());
    assert_eq!(members(&rig, &["10.0.0.11", "10.0.0.12"]).await, names(&["cp-1", "cp-2"]));
    rig.watcher.assert_none();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_member_stays_while_etcd_would_lose_its_quorum() {
    each(&[PVE_9_TALOS_13], a_member_stays_while_etcd_would_lose_its_quorum_on).await;
}

async fn a_member_stays_while_etcd_would_lose_its_quorum_on(versions: Versions) {
    let (rig, text) = started(versions).await;
    let plan = only(&rig, &text, "etcd/cp-3/leave").await;
    stop(&rig, "cp-2").await;
    let ran = run(&rig, &plan, &text).await;
    let failures: Vec<StepCode> = ran.outcome.failures().map(|(_, error)| error.code).collect();
    assert_eq!(failures, [StepCode::MemberKept], "{}", ran.failures());
    let failures = ran.failures();
    assert!(failures.contains("1 of the 2 other members are healthy (cp-2: "), "{failures}");
    assert_eq!(members(&rig, &["10.0.0.11", "10.0.0.13"]).await, names(&["cp-1", "cp-2", "cp-3"]));
    rig.watcher.assert_none();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_killed_removal_is_continued() {
    each(&[PVE_8_TALOS_11], a_killed_removal_is_continued_on).await;
}

async fn a_killed_removal_is_continued_on(versions: Versions) {
    for moment in [Moment::BeforeAct, Moment::AfterAct] {
        let (rig, text) = started(versions).await;
        let step = StepId::new("etcd/cp-3/leave");
        let plan = only(&rig, &text, step.as_str()).await;
        let (hook, times) = once(&step, moment, Cut::Crash);
        rig.carry_out(plan.clone(), &text, Some(hook)).await;
        assert_eq!(*times.lock().unwrap(), 1);
        let ran = run(&rig, &plan, &text).await;
        assert!(ran.outcome.is_done(), "{}", ran.failures());
        assert_eq!(members(&rig, &["10.0.0.11", "10.0.0.12"]).await, names(&["cp-1", "cp-2"]));
        rig.watcher.assert_none();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reset_node_is_off_and_a_silent_one_is_left_to_the_next_step() {
    each(&[PVE_9_TALOS_12], a_reset_node_is_off_and_a_silent_one_is_left_to_the_next_step_on).await;
}

async fn a_reset_node_is_off_and_a_silent_one_is_left_to_the_next_step_on(versions: Versions) {
    let (mut rig, text) = pair_started(versions).await;
    let plan = only(&rig, &text, "talos/wk-1/reset").await;
    rig.closed = &["10.0.0.21"];
    let ran = run(&rig, &plan, &text).await;
    assert!(matches!(result(&ran), StepResult::Already), "{}", ran.failures());
    let notes = ran.notes();
    assert!(notes.iter().any(|note| note.starts_with("wk-1 is not reset (")), "{notes:?}");
    rig.closed = &[];
    let ran = run(&rig, &plan, &text).await;
    assert!(matches!(result(&ran), StepResult::Done), "{}", ran.failures());
    let stopped = rig.vms().await.into_values().filter(|vm| vm.status == "stopped");
    let stopped: Vec<String> = stopped.map(|vm| vm.config["name"].clone()).collect();
    assert!(stopped.contains(&"wk-1".to_owned()), "{stopped:?}");
    let again = run(&rig, &plan, &text).await;
    assert!(matches!(result(&again), StepResult::Already), "{}", again.failures());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_object_is_deleted_once() {
    each(&[PVE_8_TALOS_13], a_node_object_is_deleted_once_on).await;
}

async fn a_node_object_is_deleted_once_on(versions: Versions) {
    let (rig, text) = pair_started(versions).await;
    let plan = only(&rig, &text, "node/wk-1/delete").await;
    stop(&rig, "wk-1").await;
    let ran = run(&rig, &plan, &text).await;
    assert!(matches!(result(&ran), StepResult::Done), "{}", ran.failures());
    let nodes = rig.kube(&text).nodes().await.unwrap();
    assert!(!nodes.iter().any(|node| node.name == "wk-1"), "{nodes:?}");
    let again = run(&rig, &plan, &text).await;
    assert!(matches!(result(&again), StepResult::Already), "{}", again.failures());
}
