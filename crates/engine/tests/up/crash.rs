//! Wherever a run is killed, the same command run again reaches the same result. The interruptions come from the plan itself.
//! Every step that makes a change is killed before the change, killed after the change, killed while its task runs, and fails
//! once. Steps that only wait are killed or fail when they start.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use talmox_engine::observe::TalosAccess;
use talmox_engine::step::{Cut, CutHook, Moment};
use talmox_lab::pve::{Action as FaultAction, Fault, When};
use talmox_lab::{NodeAction, TargetNode};
use talmox_plan::desired::Contact;
use talmox_plan::plan::{Action, Step, StepId, show};
use talmox_talos_api::client::Payload;
use talmox_talos_api::{Address, Client};
use tokio::task::JoinSet;

use super::lab_state::{LabState, VmState};
use super::rig::{Rig, once};
use super::test_cluster::TestCluster;

/// Durations in lab time. `SLOW_COPY` is long enough for the next run to meet a task that copies a disk or an image.
/// `SLOW_CHANGE` is for tasks that lock a VM, for which steps do not wait as long.
const SLOW_COPY: Duration = Duration::from_mins(2);
const SLOW_CHANGE: Duration = Duration::from_secs(30);
/// Number of runs at the same time. They wait more than they compute.
const AT_ONCE: usize = 4;

/// A cluster that was created without interruption.
struct ReferenceRun {
    test_cluster: TestCluster,
    lab_state: LabState,
    /// The steps that created the cluster, in their order.
    steps: Vec<Step>,
    /// The steps that made a change.
    acted: BTreeSet<StepId>,
}

/// Point at which a run is interrupted.
#[derive(Clone, Copy, Debug)]
pub(super) enum InterruptPoint {
    BeforeAct,
    AfterAct,
    /// Killed after the change, while the started task runs on during the next run.
    WhileTaskRuns,
    /// Killed when a step starts that only waits.
    AsItWaits,
    /// The run is not killed: the step fails, and the others continue.
    Failed,
    /// A step that only waits fails.
    FailedAsItWaits,
}

impl ReferenceRun {
    async fn of(test_cluster: TestCluster) -> Arc<Self> {
        let rig = test_cluster.lab().await;
        let acted = Arc::new(Mutex::new(BTreeSet::new()));
        let heard = Arc::clone(&acted);
        let hook: CutHook = Arc::new(move |step, moment| {
            if moment != Moment::Begin {
                heard.lock().unwrap().insert(step.clone());
            }
            Cut::Go
        });
        let ran = rig.up_with(&test_cluster.text, Some(hook)).await;
        ran.assert_done();
        let lab_state = rig.lab_state(&test_cluster.text).await;
        lab_state.assert_complete_with_others(
            test_cluster.control_planes,
            test_cluster.workers,
            test_cluster.others,
        );
        let acted = acted.lock().unwrap().clone();
        Arc::new(Self { test_cluster, lab_state, steps: ran.plan.steps, acted })
    }

    /// The steps at which a run can be interrupted in this way.
    fn steps_with(&self, place: InterruptPoint) -> Vec<Step> {
        let fits = |step: &&Step| match place {
            InterruptPoint::BeforeAct | InterruptPoint::AfterAct | InterruptPoint::Failed => {
                self.acted.contains(&step.id)
            }
            InterruptPoint::WhileTaskRuns => task_of(&step.action).is_some(),
            InterruptPoint::AsItWaits | InterruptPoint::FailedAsItWaits => {
                !self.acted.contains(&step.id)
            }
        };
        self.steps.iter().filter(fits).cloned().collect()
    }

    /// Interrupts a run, then runs the same command again.
    async fn interrupted(self: Arc<Self>, step: Step, place: InterruptPoint) {
        let rig = self.test_cluster.lab().await;
        match place {
            InterruptPoint::BeforeAct => {
                self.cut_off(&rig, &step, Moment::BeforeAct, Cut::Crash).await;
            }
            InterruptPoint::AfterAct => {
                self.cut_off(&rig, &step, Moment::AfterAct, Cut::Crash).await;
            }
            InterruptPoint::Failed => self.cut_off(&rig, &step, Moment::BeforeAct, Cut::Fail).await,
            InterruptPoint::FailedAsItWaits => {
                self.cut_off(&rig, &step, Moment::Begin, Cut::Fail).await;
            }
            InterruptPoint::WhileTaskRuns => {
                let (task, time) = task_of(&step.action).unwrap();
                let when = When { task: Some(task.to_owned()), ..When::default() };
                let slow = Fault::new(when, FaultAction::Delay(time));
                rig.lab.faults().add(Fault { times: None, ..slow });
                self.cut_off(&rig, &step, Moment::AfterAct, Cut::Crash).await;
                rig.lab.faults().clear();
            }
            InterruptPoint::AsItWaits => {
                assert!(
                    rig.up_until_started(&self.test_cluster.text, &step.id).await,
                    "{}",
                    step.id
                );
            }
        }
        self.converges(&rig, &format!("{} {place:?}", step.id)).await;
    }

    /// Interrupts a run at this moment of this step.
    async fn cut_off(&self, rig: &Rig, step: &Step, at: Moment, what: Cut) {
        let (hook, times) = once(&step.id, at, what);
        let first = rig.up_with(&self.test_cluster.text, Some(hook)).await;
        assert_eq!(*times.lock().unwrap(), 1, "{} {at:?} {what:?}: it comes there once", step.id);
        assert!(!first.outcome.is_done(), "{} {at:?} {what:?}", step.id);
    }

    /// Runs the same command again, and checks the result and that the next plan is empty.
    async fn converges(&self, rig: &Rig, place: &str) {
        let text = &self.test_cluster.text;
        let plan = rig.plan(text).await;
        assert_eq!(plan.errors().count(), 0, "{place}\n{}", show::text(&plan));
        let second = rig.up(text).await;
        assert!(
            second.outcome.is_done(),
            "{place}\n{}\n{}",
            second.failures(),
            show::text(&second.plan)
        );
        let found = rig.lab_state(text).await;
        assert_eq!(found, self.lab_state, "{place}\n{}", show::text(&second.plan));
        let third = rig.plan(text).await;
        assert!(third.is_empty(), "{place}\n{}", show::text(&third));
    }
}

/// The kind of task that a step starts and waits for, and the delay for it. None if the step starts no task. Uploads of
/// configs have none, because they are so small that no upload still runs when the next run starts.
pub(super) fn task_of(action: &Action) -> Option<(&'static str, Duration)> {
    match action {
        Action::FetchImage(_) => Some(("download", SLOW_COPY)),
        Action::CreateVm(_) => Some(("qmcreate", SLOW_COPY)),
        Action::CloneVm(_) => Some(("qmclone", SLOW_COPY)),
        Action::ResizeDisk(_) => Some(("resize", SLOW_CHANGE)),
        Action::StartVm(_) => Some(("qmstart", SLOW_CHANGE)),
        Action::StopVm(_) => Some(("qmstop", SLOW_CHANGE)),
        Action::DestroyVm(_) => Some(("qmdestroy", SLOW_CHANGE)),
        Action::MigrateVm(_) => Some(("qmigrate", SLOW_COPY)),
        _ => None,
    }
}

/// Interrupts every step at these places, each in a separate lab. Checks that there are at least `least` interruptions.
async fn every_step(test_cluster: TestCluster, places: &[InterruptPoint], least: usize) {
    let reference_run = ReferenceRun::of(test_cluster).await;
    let steps = places.iter().flat_map(|place| {
        reference_run.steps_with(*place).into_iter().map(move |step| (step, *place))
    });
    let all: Vec<(Step, InterruptPoint)> = steps.collect();
    assert!(all.len() >= least, "{}", all.len());
    let mut running = JoinSet::new();
    for (step, place) in all {
        if running.len() == AT_ONCE {
            running.join_next().await.unwrap().unwrap();
        }
        running.spawn(Arc::clone(&reference_run).interrupted(step, place));
    }
    running.join_all().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_killed_before_a_step_acts_is_resumed() {
    every_step(TestCluster::usual(), &[InterruptPoint::BeforeAct], 25).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_killed_after_a_step_acted_is_resumed() {
    every_step(TestCluster::usual(), &[InterruptPoint::AfterAct], 25).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_killed_while_a_task_runs_is_resumed() {
    every_step(TestCluster::usual(), &[InterruptPoint::WhileTaskRuns], 16).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_killed_while_a_step_waits_is_resumed() {
    every_step(TestCluster::usual(), &[InterruptPoint::AsItWaits], 7).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_that_failed_once_is_resumed() {
    every_step(
        TestCluster::usual(),
        &[InterruptPoint::Failed, InterruptPoint::FailedAsItWaits],
        32,
    )
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn clones_killed_before_or_after_a_step_acts() {
    every_step(TestCluster::clones(), &[InterruptPoint::BeforeAct, InterruptPoint::AfterAct], 20)
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn clones_killed_while_a_task_runs_or_a_step_waits() {
    every_step(
        TestCluster::clones(),
        &[InterruptPoint::WhileTaskRuns, InterruptPoint::AsItWaits],
        10,
    )
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn clones_failed_once() {
    every_step(
        TestCluster::clones(),
        &[InterruptPoint::Failed, InterruptPoint::FailedAsItWaits],
        12,
    )
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn volumes_killed_before_or_after_a_step_acts() {
    every_step(TestCluster::volumes(), &[InterruptPoint::BeforeAct, InterruptPoint::AfterAct], 30)
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn volumes_killed_while_a_task_runs_or_a_step_waits() {
    every_step(
        TestCluster::volumes(),
        &[InterruptPoint::WhileTaskRuns, InterruptPoint::AsItWaits],
        12,
    )
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn volumes_failed_once() {
    every_step(
        TestCluster::volumes(),
        &[InterruptPoint::Failed, InterruptPoint::FailedAsItWaits],
        17,
    )
    .await;
}

/// Talos accepts a second bootstrap as long as the etcd of the first one has not started, and stops that etcd. A run that was
/// killed right after its request is visible only in the events of the node.
#[tokio::test(flavor = "multi_thread")]
async fn a_run_killed_right_after_the_bootstrap_does_not_request_it_again() {
    let test_cluster = TestCluster::usual();
    let rig = test_cluster.lab().await;
    let when = When { talos: Some("Bootstrap".to_owned()), ..When::default() };
    let slow = NodeAction::Slow(TargetNode::This, Duration::from_mins(1));
    rig.lab.faults().add(Fault::new(when, FaultAction::Node(slow)));
    let step = StepId::new("etcd/bootstrap".to_owned());
    let (hook, times) = once(&step, Moment::AfterAct, Cut::Crash);
    rig.up_with(&test_cluster.text, Some(hook)).await;
    assert_eq!(*times.lock().unwrap(), 1);
    let second = rig.up(&test_cluster.text).await;
    second.assert_done();
    let desired = rig.desired(&test_cluster.text);
    let Contact::At(first) = desired.control_planes().next().unwrap().contact else {
        panic!("the first control plane has no fixed address")
    };
    let TalosAccess { credentials, settings } = rig.access();
    let node = Address { host: first.to_string(), port: 50000 };
    let client = Client::new(node, &credentials, &settings).unwrap();
    let events = client.past_events().await.unwrap();
    let etcd = events.iter().filter_map(|event| match &event.payload {
        Payload::Service(service) if service.service == "etcd" => Some(service.message.as_str()),
        _ => None,
    });
    let messages: Vec<&str> = etcd.collect();
    let requests = messages.iter().filter(|message| **message == "Bootstrap requested").count();
    assert_eq!(requests, 1, "{messages:#?}");
}

/// The list of all VMs is read while a VM is still being created and the token cannot see it. When talmox asks about its
/// vmid, the VM is finished. It must not be created twice, and no other vmid may be used.
#[tokio::test(flavor = "multi_thread")]
async fn objects_finished_during_planning_are_not_created_again() {
    for (test_cluster, made_by, task) in [
        (TestCluster::volumes(), "create", "qmcreate"),
        (TestCluster::clones(), "clone", "qmclone"),
    ] {
        let rig = test_cluster.lab().await;
        let when = When { task: Some(task.to_owned()), ..When::default() };
        let slow = FaultAction::Delay(Duration::from_secs(10));
        rig.lab.faults().add(Fault { times: None, ..Fault::new(when, slow) });
        let step = StepId::new(format!("vm/cp-1/{made_by}"));
        let (hook, times) = once(&step, Moment::AfterAct, Cut::Crash);
        rig.up_with(&test_cluster.text, Some(hook)).await;
        assert_eq!(*times.lock().unwrap(), 1);
        let is_own = |vmid: &&u32| **vmid >= 300;
        let created = rig.vms().await;
        let created: BTreeSet<u32> = created.keys().filter(is_own).copied().collect();
        assert!(!created.is_empty());
        rig.lab.faults().clear();
        rig.inject_fault("GET", "/cluster/nextid", 3, FaultAction::Delay(Duration::from_secs(29)));
        let plan = rig.plan(&test_cluster.text).await;
        rig.lab.faults().clear();
        assert_eq!(plan.errors().count(), 0, "{}", show::text(&plan));
        let is_made_again = plan.steps.iter().any(|planned| planned.id == step);
        assert!(!is_made_again, "{}", show::text(&plan));
        rig.up(&test_cluster.text).await.assert_done();
        let vms = rig.vms().await;
        let own: BTreeSet<u32> = vms.keys().filter(is_own).copied().collect();
        let expected = test_cluster.control_planes.len() + test_cluster.others.len();
        assert_eq!(own.len(), expected, "{vms:#?}");
        assert!(created.is_subset(&own), "{created:?} {own:?}");
        let is_cp_1 = |vm: &&VmState| vm.config["name"] == "cp-1";
        assert_eq!(vms.values().filter(is_cp_1).count(), 1, "{vms:#?}");
    }
}
