//! Whatever a run is killed in, the same command run again comes to the same end. The places are those of
//! the plan itself: every step, before it acts, after it acted and before it knows, and failed once;
//! steps that only wait are cut off as they begin.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use talmox_engine::plan::{Action, Step, StepId, show};
use talmox_engine::step::{Cut, Moment};
use talmox_lab::pve::Action as FaultAction;

use super::inventory::home;
use super::matrix::{inventory, make_template};
use super::picture::Picture;
use super::rig::{Ran, Rig, once};

/// What a cluster is that nothing happened to, and the steps that made it.
async fn undisturbed(text: &str) -> (Picture, Vec<Step>) {
    let rig = Rig::start();
    let ran = rig.up(text).await;
    ran.assert_done();
    (rig.picture(text).await, ran.plan.steps)
}

/// Runs until the cut, then again; gives the first run.
async fn interrupted(text: &str, expected: &Picture, step: &Step, at: Moment, what: Cut) -> Ran {
    let rig = Rig::start();
    let (hook, times) = once(&step.id, at, what);
    let first = rig.up_with(text, Some(hook)).await;
    let place = format!("{} {at:?} {what:?}", step.id);
    if is_wait(&step.action) {
        assert_eq!(*times.lock().unwrap(), 0, "{place}: it only waits");
        first.assert_done();
    } else {
        assert_eq!(*times.lock().unwrap(), 1, "{place}: it acts once");
        assert!(!first.outcome.is_done(), "{place}");
    }
    converges(&rig, text, expected, &place).await;
    first
}

/// The same command again, and nothing more to do after it.
async fn converges(rig: &Rig, text: &str, expected: &Picture, place: &str) {
    let plan = rig.plan(text).await;
    assert_eq!(plan.errors().count(), 0, "{place}\n{}", show::text(&plan));
    let second = rig.up(text).await;
    assert!(
        second.outcome.is_done(),
        "{place}\n{}\n{}",
        second.failures(),
        show::text(&second.plan)
    );
    let found = rig.picture(text).await;
    assert_eq!(found, *expected, "{place}");
    let third = rig.plan(text).await;
    assert!(third.is_empty(), "{place}\n{}", show::text(&third));
}

fn is_wait(action: &Action) -> bool {
    matches!(action, Action::AwaitMember(_) | Action::AwaitVip(_) | Action::AwaitHealth(_))
}

/// Every step that acts, cut in this way.
async fn every_step(at: Moment, what: Cut) {
    let text = home();
    let (expected, steps) = undisturbed(&text).await;
    expected.assert_whole(&["cp-1", "cp-2", "cp-3"], &["wk-1", "wk-2"]);
    let acting: Vec<&Step> = steps.iter().filter(|step| !is_wait(&step.action)).collect();
    assert!(acting.len() > 20, "{}", acting.len());
    for step in acting {
        interrupted(&text, &expected, step, at, what).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn killed_before_a_step_acts() {
    every_step(Moment::BeforeAct, Cut::Crash).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn killed_after_a_step_acted() {
    every_step(Moment::AfterAct, Cut::Crash).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn failed_once() {
    every_step(Moment::BeforeAct, Cut::Fail).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn killed_while_a_step_waits() {
    let text = home();
    let (expected, steps) = undisturbed(&text).await;
    let waiting: Vec<&Step> = steps.iter().filter(|step| is_wait(&step.action)).collect();
    assert!(waiting.len() > 6, "{}", waiting.len());
    for step in waiting {
        let rig = Rig::start();
        let has_begun = Arc::new(AtomicBool::new(false));
        rig.up_until_begun(&text, &step.id, &has_begun).await;
        assert!(has_begun.load(Ordering::Relaxed), "{}", step.id);
        converges(&rig, &text, &expected, &format!("{} begun", step.id)).await;
    }
}

/// What is being made has neither name nor pool, and a clone's task carries another number: the next
/// run must find it all the same.
#[tokio::test(flavor = "multi_thread")]
async fn killed_while_a_vm_is_being_made() {
    for (boot, step, task) in
        [("cloudinit", "create", "qmcreate"), ("template", "clone", "qmclone")]
    {
        let rig = Rig::start();
        let text = inventory("v1.11.2", boot);
        if boot == "template" {
            make_template(&rig, "v1.11.2").await;
        }
        rig.strike_task(task, FaultAction::Delay(Duration::from_mins(8)));
        let at = StepId::new(format!("vm/cp-1/{step}"));
        let (hook, _) = once(&at, Moment::AfterAct, Cut::Crash);
        let first = rig.up_with(&text, Some(hook)).await;
        assert!(!first.outcome.is_done(), "{boot}");
        let second = rig.up(&text).await;
        assert!(second.outcome.is_done(), "{boot}\n{}", second.failures());
        rig.picture(&text).await.assert_whole(&["cp-1"], &["wk-1"]);
    }
}
