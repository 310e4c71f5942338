//! The destruction of a cluster, interrupted at every step of its plan, with the rights of a narrow token. The same command
//! run again completes the destruction, and nothing is left.

use std::time::Duration;

use talmox_engine::step::{Cut, Moment};
use talmox_lab::pve::{Action as FaultAction, Fault, When};
use talmox_plan::plan::{Action, Step, StepId, show};
use talmox_plan::planning::DestroyOptions;

use super::inventory::pair;
use super::rig::{LabOptions, Rig, once};

/// Duration of a slow task in lab time. It is longer than all attempts of a step together, so that a step succeeds only if it
/// waits for the task of the earlier run.
const SLOW_TASK: Duration = Duration::from_mins(6);

/// Point at which the destruction is interrupted.
#[derive(Clone, Copy, Debug)]
enum InterruptPoint {
    BeforeAct,
    AfterAct,
    /// Killed while the started task runs on during the next run.
    WhileTaskRuns,
    Failed,
}

/// A lab with the VMs of a cluster, without configs.
pub(super) async fn machines() -> Rig {
    let rig = Rig::start();
    let mut plan = rig.plan(&pair()).await;
    plan.steps.retain(|step| {
        let id = step.id.as_str();
        ["schematic", "image/", "vm/"].iter().any(|kind| id.starts_with(kind))
    });
    rig.carry_out(plan, &pair(), None).await.assert_done();
    rig
}

async fn interrupt_and_destroy_again(step: &Step, place: InterruptPoint) {
    let rig = machines().await;
    let plan = rig.destroy_plan(&pair(), DestroyOptions::default()).await;
    if let InterruptPoint::WhileTaskRuns = place {
        let task = if matches!(step.action, Action::StopVm(_)) { "qmstop" } else { "qmdestroy" };
        let when = When { task: Some(task.to_owned()), ..When::default() };
        let slow = Fault::new(when, FaultAction::Delay(SLOW_TASK));
        rig.lab.faults().add(Fault { times: None, ..slow });
    }
    let (at, what) = match place {
        InterruptPoint::BeforeAct => (Moment::BeforeAct, Cut::Crash),
        InterruptPoint::AfterAct | InterruptPoint::WhileTaskRuns => (Moment::AfterAct, Cut::Crash),
        InterruptPoint::Failed => (Moment::BeforeAct, Cut::Fail),
    };
    let (hook, times) = once(&step.id, at, what);
    let first = rig.carry_out(plan, &pair(), Some(hook)).await;
    assert_eq!(*times.lock().unwrap(), 1, "{} {place:?}", step.id);
    assert!(!first.outcome.is_done(), "{} {place:?}", step.id);
    rig.lab.faults().clear();
    let second = rig.destroy(&pair()).await;
    assert!(second.outcome.is_done(), "{} {place:?}\n{}", step.id, second.failures());
    assert_eq!(rig.vms().await.keys().copied().collect::<Vec<_>>(), [100], "{} {place:?}", step.id);
    let all = DestroyOptions { images: false, secrets: true };
    let third = rig.destroy_plan(&pair(), all).await;
    assert!(third.is_empty() && third.findings.is_empty(), "{}", show::text(&third));
}

/// Interrupts the destruction at every step of its plan.
async fn every_step(place: InterruptPoint) {
    let rig = machines().await;
    let plan = rig.destroy_plan(&pair(), DestroyOptions::default()).await;
    let ids: Vec<&StepId> = plan.steps.iter().map(|step| &step.id).collect();
    assert_eq!(ids.len(), 4, "{ids:?}");
    for step in &plan.steps {
        interrupt_and_destroy_again(step, place).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_destroy_killed_before_a_step_acts_is_resumed() {
    Box::pin(every_step(InterruptPoint::BeforeAct)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_destroy_killed_after_a_step_acted_is_resumed() {
    Box::pin(every_step(InterruptPoint::AfterAct)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_destroy_killed_while_a_task_runs_is_resumed() {
    Box::pin(every_step(InterruptPoint::WhileTaskRuns)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_destroy_that_failed_once_is_resumed() {
    Box::pin(every_step(InterruptPoint::Failed)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_that_may_see_nothing_is_reported() {
    let blind = ("VM.Allocate, VM.Audit,", "VM.Allocate,".to_owned());
    let rig = Rig::of(LabOptions { with: vec![blind], ..LabOptions::default() });
    let plan = rig.destroy_plan(&pair(), DestroyOptions::default()).await;
    let shown = show::text(&plan);
    assert!(
        shown.contains("error[right-missing]: /pool/talos: the token lacks VM.Audit: VMs of"),
        "{shown}"
    );
    let rig = Rig::start();
    let plan = rig.destroy_plan(&pair(), DestroyOptions::default()).await;
    assert!(plan.is_empty() && plan.findings.is_empty(), "{}", show::text(&plan));
}
