//! How the executor handles steps, independent of their kind.

use std::sync::Arc;
use std::time::Duration;

use talmox_engine::event::{Event, RunEnd, StepEnd};
use talmox_engine::step::{Context, Cut, Moment};
use talmox_lab::pve::{Action as FaultAction, Fault, When};
use talmox_plan::plan::{Action, CreateVm, PostSchematic};
use talmox_pve::client::Limits;

use super::rig::{DEADLINE, Rig, TALMOX, bring_up, create, own, step};
use crate::common;

#[tokio::test]
async fn a_failed_step_skips_only_its_dependents() {
    let rig = Rig::start("9.2");
    let (one, other) = (own("cp-1", 300), own("cp-2", 301));
    let mut steps = bring_up(&one);
    steps.extend(bring_up(&other));
    let rejection = FaultAction::Reject { status: 500, message: "no such luck".to_owned() };
    rig.inject_fault("PUT", "/nodes/pve1/qemu/300/resize", rejection);
    let ran = rig.run(&steps).await;
    let results = ran.results();
    assert_eq!(ran.outcome.end, RunEnd::Failed);
    assert_eq!(results[0], "cp-1/create done");
    assert!(results[1].starts_with("cp-1/resize failed: grow scsi0 of VM 300"), "{results:?}");
    assert_eq!(results[2], "cp-1/finish blocked by cp-1/resize");
    assert_eq!(results[3], "cp-1/start blocked by cp-1/finish");
    assert!(results[4..].iter().all(|result| result.ends_with("done")), "{results:?}");
    assert!(ran.failure().0.contains("no such luck"));
}

#[tokio::test]
async fn a_panic_fails_only_its_step() {
    let rig = Rig::start("9.2");
    let (one, other) = (own("cp-1", 300), own("cp-2", 301));
    let mut steps = bring_up(&one);
    steps.extend(bring_up(&other));
    let panics: talmox_engine::step::CutHook = Arc::new(|step, moment| {
        let is_it = step.as_str() == "cp-1/create" && moment == Moment::BeforeAct;
        assert!(!is_it, "an invariant that was none");
        Cut::Go
    });
    let context = Context { cut: Some(panics), ..rig.context(TALMOX) };
    let ran = rig.run_with(&steps, &context).await;
    let (text, hint) = ran.failure();
    assert!(text.contains("a bug in talmox: an invariant that was none"), "{text}");
    assert!(hint.contains("report"), "{hint}");
    assert_eq!(ran.results()[7], "cp-2/start done");
}

#[tokio::test]
async fn independent_steps_run_concurrently() {
    let rig = Rig::start("9.2");
    let when = When { task: Some("qmstart".to_owned()), ..When::default() };
    let slow = FaultAction::Delay(Duration::from_mins(2));
    rig.lab.faults().add(Fault { times: None, ..Fault::new(when, slow) });
    let owns: Vec<_> = (0..4).map(|nth| own(&format!("cp-{nth}"), 300 + nth)).collect();
    let steps: Vec<_> = owns.iter().flat_map(bring_up).collect();
    let ran = rig.run(&steps).await;
    ran.assert_done();
    let started = |step: &str| {
        let is_it = |event: &&talmox_engine::event::Stamped| matches!(&event.what, Event::StepStarted { step: name } if name == step);
        ran.events.iter().find(is_it).unwrap().time
    };
    let ended = |step: &str| {
        let is_it = |event: &&talmox_engine::event::Stamped| matches!(&event.what, Event::StepEnded { step: name, .. } if name == step);
        ran.events.iter().find(is_it).unwrap().time
    };
    let first_end = (0..4).map(|nth| ended(&format!("cp-{nth}/start"))).fold(f64::MAX, f64::min);
    for nth in 0..4 {
        assert!(started(&format!("cp-{nth}/start")) < first_end, "cp-{nth} waited for another");
    }
}

#[tokio::test]
async fn a_run_reports_its_steps_and_waits_as_events() {
    let rig = Rig::start("9.2");
    let own = own("cp-1", 300);
    let ran = rig.run(&bring_up(&own)).await;
    let Event::RunStarted { cluster, steps } = &ran.events[0].what else {
        panic!("{:?}", ran.events[0]);
    };
    assert_eq!((cluster.as_str(), steps.len()), ("home", 4));
    assert_eq!(steps[1].after, ["cp-1/create"]);
    let ends: Vec<_> = ran
        .events
        .iter()
        .filter_map(|event| match &event.what {
            Event::StepEnded { step, end, .. } => Some((step.as_str(), end.clone())),
            _ => None,
        })
        .collect();
    assert_eq!(ends.len(), 4);
    assert!(ends.iter().all(|(_, end)| *end == StepEnd::Done));
    assert!(ran.events.iter().any(|event| matches!(
        &event.what,
        Event::StepWaits { reason, .. } if reason == "waiting for the task qmcreate on pve1"
    )));
}

#[tokio::test]
async fn a_step_fails_after_twelve_attempts_to_connect() {
    let rig = Rig::start("9.2");
    let post = PostSchematic {
        factory: "http://127.0.0.1:9".to_owned(),
        id: "x".to_owned(),
        yaml: "customization: {}\n".to_owned(),
        deadline: DEADLINE,
    };
    let steps = [
        step("schematic", Action::PostSchematic(post), &[]),
        step("create", create(&own("cp-1", 300)), &["schematic"]),
    ];
    let ran = rig.run(&steps).await;
    let (text, _) = ran.failure();
    assert!(text.contains("(tried 12 times): cannot connect for http://127.0.0.1:9/"), "{text}");
    assert_eq!(ran.results()[1], "create blocked by schematic");
    assert_eq!(ran.retries(), 11);
}

#[tokio::test]
async fn a_step_fails_at_its_deadline() {
    let rig = Rig::start("9.2");
    // This server accepts connections and sends nothing.
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let post = PostSchematic {
        factory: format!("http://{}", silent.local_addr().unwrap()),
        id: "x".to_owned(),
        yaml: "customization: {}\n".to_owned(),
        deadline: Duration::from_mins(1),
    };
    let ran = rig.run(&[step("schematic", Action::PostSchematic(post), &[])]).await;
    let (text, hint) = ran.failure();
    assert_eq!(text, "it has not ended after 1 min: waiting for the Image Factory to answer");
    assert!(hint.contains("to resume"), "{hint}");
}

/// There is room for one task, so the last step waits longer than its deadline.
#[tokio::test(flavor = "multi_thread")]
async fn the_deadline_of_a_step_excludes_the_wait_for_other_tasks() {
    let rig = Rig::start("9.2");
    let when = When { task: Some("qmcreate".to_owned()), ..When::default() };
    let slow = FaultAction::Delay(Duration::from_mins(4));
    rig.lab.faults().add(Fault { times: None, ..Fault::new(when, slow) });
    let steps = ["a", "b", "c", "d"].into_iter().zip(301..).map(|(name, number)| {
        let Action::CreateVm(create) = create(&own(name, number)) else { unreachable!() };
        let create = CreateVm { deadline: Duration::from_mins(11), ..create };
        step(name, Action::CreateVm(create), &[])
    });
    let limits = Limits { per_storage: 1, ..Limits::default() };
    let pve = common::client_within(&rig.lab, TALMOX, limits);
    let context = Context { pve, ..rig.context(TALMOX) };
    let ran = rig.run_with(&steps.collect::<Vec<_>>(), &context).await;
    assert_eq!(ran.results(), ["a done", "b done", "c done", "d done"]);
    let waits = ran.waits();
    let turns =
        waits.iter().filter(|wait| **wait == "waiting for other tasks on pve1 to end").count();
    assert!(turns >= 3, "{waits:?}");
}
