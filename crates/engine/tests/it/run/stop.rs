//! Cancelling a run: a change that has started is completed, and all other waits end.

use std::sync::Arc;
use std::time::Duration;

use talmox_engine::event::{Event, RunEnd};
use talmox_engine::execute::Cancel;
use talmox_engine::step::{Context, Cut, CutHook, Moment};
use talmox_lab::pve::{Action as FaultAction, Fault, When};
use talmox_plan::plan::{Action, DestroyVm, OwnVm, Step, StepId, StopVm};
use talmox_pve::api::ha::{self, HaSettings};
use talmox_pve::api::task::{self, Filter, TaskState};
use talmox_pve::api::{cluster, qemu};

use super::rig::{
    ADMIN, CompletedRun, DEADLINE, Rig, TALMOX, bring_up, id, own, run, run_until_event, step,
};

/// `NAME/stop` and `NAME/destroy`.
fn take_down(own: &OwnVm, after: &[&str]) -> Vec<Step> {
    let name = |act: &str| format!("{}/{act}", own.identity.node);
    let stop = StopVm { own: own.clone(), deadline: DEADLINE };
    let destroy = DestroyVm { own: own.clone(), deadline: DEADLINE };
    vec![
        step(&name("stop"), Action::StopVm(stop), after),
        step(&name("destroy"), Action::DestroyVm(destroy), &[&name("stop")]),
    ]
}

/// The run is cancelled just after Proxmox has started the task of this step.
async fn stopped_in(at: &str, steps: &[Step], context: Context) -> CompletedRun {
    let (cancel, at) = (Cancel::default(), StepId::new(at));
    let canceller = cancel.clone();
    let hook: CutHook = Arc::new(move |step, moment| {
        if *step == at && moment == Moment::AfterAct {
            canceller.cancel();
        }
        Cut::Go
    });
    run(steps, &Context { cut: Some(hook), ..context }, &cancel).await
}

/// Kinds of the tasks that are running.
async fn running(rig: &Rig) -> Vec<String> {
    let tasks = rig.client(ADMIN).send(&task::list(&id("pve1"), &Filter::default())).await;
    let running = tasks.unwrap().into_iter().filter(|task| task.state == TaskState::Running);
    running.map(|task| task.upid.kind().to_owned()).collect()
}

fn slow(rig: &Rig, task: &str, time: Duration) {
    let when = When { task: Some(task.to_owned()), ..When::default() };
    rig.lab.faults().add(Fault { times: None, ..Fault::new(when, FaultAction::Delay(time)) });
}

/// Whether the vmid of a VM is free.
async fn is_gone(rig: &Rig, own: &OwnVm) -> bool {
    rig.client(ADMIN).send(&cluster::is_free(own.vm.vmid)).await.is_ok()
}

#[tokio::test]
async fn a_cancelled_run_waits_for_its_started_tasks() {
    let rig = Rig::start("9.2");
    let (one, other) = (own("one", 300), own("other", 301));
    rig.run(&[bring_up(&one), bring_up(&other)].concat()).await.assert_done();
    let steps = [take_down(&one, &[]), take_down(&other, &["one/destroy"])].concat();
    for task in ["qmstop", "qmdestroy"] {
        slow(&rig, task, Duration::from_mins(2));
    }

    let ran = stopped_in("one/stop", &steps, rig.context(TALMOX)).await;
    assert_eq!(ran.outcome.end, RunEnd::Cancelled);
    assert_eq!(ran.results()[..2], ["one/stop done", "one/destroy cancelled"]);
    assert_eq!(running(&rig).await, [""; 0]);
    assert!(!rig.client(ADMIN).send(&qemu::current(&one.vm)).await.unwrap().running);

    let ran = stopped_in("one/destroy", &steps, rig.context(TALMOX)).await;
    assert_eq!(
        ran.results(),
        ["one/stop already", "one/destroy done", "other/stop cancelled", "other/destroy cancelled"]
    );
    assert_eq!(running(&rig).await, [""; 0]);
    assert!(is_gone(&rig, &one).await && !is_gone(&rig, &other).await);

    // No step is left that the cancellation could stop.
    let rest = stopped_in("other/destroy", &steps, rig.context(TALMOX)).await;
    rest.assert_done();
    assert!(is_gone(&rig, &other).await);
}

#[tokio::test]
async fn a_cancelled_run_waits_for_a_task_whose_start_was_not_confirmed() {
    let rig = Rig::start("9.2");
    let own = own("one", 300);
    rig.run(&bring_up(&own)).await.assert_done();
    rig.run(&take_down(&own, &[])[..1]).await.assert_done();
    slow(&rig, "qmdestroy", Duration::from_mins(2));
    rig.inject_fault("DELETE", "/nodes/pve1/qemu/300", FaultAction::CutAfter);
    let ran = stopped_in("one/destroy", &take_down(&own, &[]), rig.context(TALMOX)).await;
    assert_eq!(ran.retries(), 1);
    ran.assert_done();
    assert!(is_gone(&rig, &own).await);
    assert_eq!(running(&rig).await, [""; 0]);
}

#[tokio::test]
async fn a_cancelled_run_waits_for_requests_to_the_ha_manager() {
    let rig = Rig::start("9.2");
    let own = own("one", 300);
    rig.run(&bring_up(&own)).await.assert_done();
    let admin = rig.client(ADMIN);
    admin.send(&ha::add_resource(own.vm.vmid, &HaSettings::default())).await.unwrap();
    let ran = stopped_in("one/stop", &take_down(&own, &[]), rig.context(ADMIN)).await;
    assert_eq!(ran.results(), ["one/stop done", "one/destroy cancelled"]);
    assert!(!admin.send(&qemu::current(&own.vm)).await.unwrap().running);
}

#[tokio::test]
async fn a_cancelled_run_reports_a_task_of_an_earlier_run_and_does_not_wait() {
    let rig = Rig::start("9.2");
    let own = own("one", 300);
    slow(&rig, "qmcreate", Duration::from_hours(24));
    rig.run_until(&bring_up(&own), "one/create", Moment::AfterAct).await;
    let is_enough = |event: &Event| matches!(event, Event::StepWaits { reason, .. } if reason.starts_with("waiting for the earlier task"));
    let context = rig.context(TALMOX);
    let ran = run_until_event(&bring_up(&own), &context, &Cancel::default(), is_enough).await;
    assert_eq!(ran.outcome.end, RunEnd::Cancelled);
    assert!(ran.results().iter().all(|result| result.ends_with("cancelled")));
    assert_eq!(
        ran.notes(),
        ["stopped waiting for the earlier task qmcreate on pve1; the task continues in Proxmox"]
    );
    assert_eq!(running(&rig).await, ["qmcreate"]);
}

#[tokio::test]
async fn a_step_that_waits_for_other_tasks_starts_nothing_after_a_cancel() {
    let rig = Rig::start("9.2");
    slow(&rig, "qmcreate", Duration::from_mins(5));
    let owns: Vec<_> = (0..3).map(|nth| own(&format!("cp-{nth}"), 300 + nth)).collect();
    let steps: Vec<_> = owns.iter().flat_map(bring_up).collect();
    // A storage has room for two tasks at a time.
    let is_enough = |event: &Event| matches!(event, Event::StepWaits { reason, .. } if reason == "waiting for other tasks on pve1 to end");
    let ran = run_until_event(&steps, &rig.context(TALMOX), &Cancel::default(), is_enough).await;
    assert_eq!(ran.outcome.end, RunEnd::Cancelled);
    let results = ran.results();
    let done = results.iter().filter(|result| result.ends_with("/create done")).count();
    let cancelled = results.iter().filter(|result| result.ends_with(" cancelled")).count();
    assert_eq!((done, cancelled), (2, 10), "{results:?}");
    let creates = rig.recorded_requests().iter().filter(|call| call.starts_with("POST")).count();
    assert_eq!(creates, 2);
    let stops = ran.events.iter().filter(|event| event.what == Event::RunStopping).count();
    assert_eq!(stops, 1);
}
