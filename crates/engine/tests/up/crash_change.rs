//! Changes of a running cluster, interrupted at every step: killed before or after its change, killed while its task runs on,
//! or failed once. The same command run again completes the change, and the invariants of the lab hold all the time.
//!
//! All interruptions of a change share one lab: a change is made and undone in turns, each time with another interruption. A
//! build with the environment variable `TALMOX_EVERY_CUT` tests all interruptions. Otherwise a random selection is tested.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};

use talmox_clock::Chance;
use talmox_engine::step::{Cut, CutHook, Moment};
use talmox_lab::pve::{Action as FaultAction, Fault, When};
use talmox_plan::plan::{Step, StepId, show};
use talmox_plan::planning::{RemovalConsent, Scope};

use super::crash::{InterruptPoint, task_of};
use super::inventory::{HEAD, PAIR, bundle, desired, home, pair};
use super::lab_state::LabState;
use super::rig::{LabOptions, Rig, once};

/// Number of interruptions of one direction of a change, unless all are tested.
const SELECTED: usize = 8;
const SEED: u64 = 9;
const INTERRUPT_POINTS: [InterruptPoint; 6] = [
    InterruptPoint::BeforeAct,
    InterruptPoint::AfterAct,
    InterruptPoint::Failed,
    InterruptPoint::WhileTaskRuns,
    InterruptPoint::AsItWaits,
    InterruptPoint::FailedAsItWaits,
];

/// A change of a cluster, and its reverse.
struct ClusterChange {
    first: String,
    second: String,
    lab_options: LabOptions,
    /// Node whose VM a user deletes before each run.
    lost: Option<&'static str>,
    /// Whether volumes get other names, because Proxmox chooses new names when it copies a disk to another host.
    copies_disks: bool,
}

/// Target inventory of a run, and the places at which the run is interrupted.
struct ReferenceChange<'s> {
    text: &'s str,
    cuts: Vec<(Step, InterruptPoint)>,
    /// State of the cluster after an undisturbed run.
    goal: LabState,
}

impl ClusterChange {
    fn new(first: String, second: String) -> Self {
        Self { first, second, lab_options: LabOptions::default(), lost: None, copies_disks: false }
    }

    async fn started(&self) -> Rig {
        let mut rig = Rig::of(self.lab_options.clone());
        rig.scope = Scope { removal: RemovalConsent::All, ..Scope::default() };
        rig.up(&self.first).await.assert_done();
        rig
    }

    /// Makes and undoes the change in turns, each time with another interruption.
    async fn make_and_undo(self, least: usize) {
        let rig = self.started().await;
        let made = Box::pin(self.reference_change(&rig, &self.second)).await;
        let undone = Box::pin(self.reference_change(&rig, &self.first)).await;
        assert!(made.cuts.len() >= least, "{}", made.cuts.len());
        let count = made.cuts.len().max(undone.cuts.len());
        for nth in 0..count {
            for change in [&made, &undone] {
                Box::pin(self.interrupted(&rig, change, change.cuts.get(nth))).await;
            }
        }
    }

    /// Makes a change that is not undone. Each interruption has a separate lab.
    async fn make_once(self, least: usize) {
        let first = self.started().await;
        let change = Box::pin(self.reference_change(&first, &self.second)).await;
        assert!(change.cuts.len() >= least, "{}", change.cuts.len());
        drop(first);
        for cut in &change.cuts {
            let rig = self.started().await;
            Box::pin(self.interrupted(&rig, &change, Some(cut))).await;
        }
    }

    /// Repairs a cluster that lost a VM, each time with another interruption.
    async fn repair(self, least: usize) {
        let rig = self.started().await;
        let change = Box::pin(self.reference_change(&rig, &self.first)).await;
        assert!(change.cuts.len() >= least, "{}", change.cuts.len());
        for cut in &change.cuts {
            Box::pin(self.interrupted(&rig, &change, Some(cut))).await;
        }
    }

    /// Runs without interruption, and records the steps that made a change.
    async fn reference_change<'s>(&self, rig: &Rig, text: &'s str) -> ReferenceChange<'s> {
        self.delete_lost_vm(rig).await;
        let acted = Arc::new(Mutex::new(BTreeSet::new()));
        let heard = Arc::clone(&acted);
        let hook: CutHook = Arc::new(move |step, moment| {
            if moment != Moment::Begin {
                heard.lock().unwrap().insert(step.clone());
            }
            Cut::Go
        });
        let plan = rig.plan(text).await;
        assert_eq!(plan.errors().count(), 0, "{}", show::text(&plan));
        let ran = rig.carry_out(plan, text, Some(hook)).await;
        ran.assert_done();
        rig.assert_converged(text).await;
        let acted = acted.lock().unwrap().clone();
        let cuts = selected(cuts(&ran.plan.steps, &acted));
        ReferenceChange { text, cuts, goal: self.lab_state(rig, text).await }
    }

    async fn delete_lost_vm(&self, rig: &Rig) {
        if let Some(name) = self.lost {
            let vms = rig.vms().await;
            let found = vms.iter().find(|(_, vm)| vm.config["name"] == name);
            rig.delete_vm(*found.unwrap().0).await;
        }
    }

    /// Interrupts a run, then runs the same command again.
    async fn interrupted(
        &self,
        rig: &Rig,
        change: &ReferenceChange<'_>,
        cut: Option<&(Step, InterruptPoint)>,
    ) {
        self.delete_lost_vm(rig).await;
        let place = match cut {
            Some((step, place)) => {
                Box::pin(interrupt(rig, change.text, step, *place)).await;
                rig.watcher.assert_none();
                format!("{} {place:?}", step.id)
            }
            None => "without interruption".to_owned(),
        };
        let plan = rig.plan(change.text).await;
        assert_eq!(plan.errors().count(), 0, "{place}\n{}", show::text(&plan));
        let ran = rig.carry_out(plan, change.text, None).await;
        assert!(ran.outcome.is_done(), "{place}\n{}\n{}", ran.failures(), show::text(&ran.plan));
        assert_eq!(self.lab_state(rig, change.text).await, change.goal, "{place}");
        let rest = rig.plan(change.text).await;
        assert!(rest.is_empty(), "{place}\n{}", show::text(&rest));
        rig.watcher.assert_none();
    }

    /// The state of the cluster, without names that differ from run to run.
    async fn lab_state(&self, rig: &Rig, text: &str) -> LabState {
        let mut lab_state = rig.lab_state(text).await;
        if self.copies_disks {
            lab_state.volumes = BTreeMap::new();
            for vm in lab_state.vms.values_mut() {
                vm.config.retain(|key, _| !is_drive(key));
            }
        }
        lab_state
    }
}

/// All places at which a run with these steps can be interrupted.
fn cuts(steps: &[Step], acted: &BTreeSet<StepId>) -> Vec<(Step, InterruptPoint)> {
    let fits = |step: &Step, place: InterruptPoint| match place {
        InterruptPoint::BeforeAct | InterruptPoint::AfterAct | InterruptPoint::Failed => {
            acted.contains(&step.id)
        }
        InterruptPoint::WhileTaskRuns => {
            acted.contains(&step.id) && task_of(&step.action).is_some()
        }
        InterruptPoint::AsItWaits | InterruptPoint::FailedAsItWaits => !acted.contains(&step.id),
    };
    let all =
        INTERRUPT_POINTS.into_iter().flat_map(|place| steps.iter().map(move |step| (step, place)));
    all.filter(|(step, place)| fits(step, *place))
        .map(|(step, place)| (step.clone(), place))
        .collect()
}

fn selected(mut cuts: Vec<(Step, InterruptPoint)>) -> Vec<(Step, InterruptPoint)> {
    let mut chance = Chance::new(SEED);
    while cuts.len() > SELECTED && option_env!("TALMOX_EVERY_CUT").is_none() {
        let count = u64::try_from(cuts.len()).unwrap();
        cuts.remove(usize::try_from(chance.below(count)).unwrap());
    }
    cuts
}

/// Interrupts a run at this place.
async fn interrupt(rig: &Rig, text: &str, step: &Step, place: InterruptPoint) {
    let (moment, what) = match place {
        InterruptPoint::BeforeAct => (Moment::BeforeAct, Cut::Crash),
        InterruptPoint::AfterAct | InterruptPoint::WhileTaskRuns => (Moment::AfterAct, Cut::Crash),
        InterruptPoint::Failed => (Moment::BeforeAct, Cut::Fail),
        InterruptPoint::AsItWaits => (Moment::Begin, Cut::Crash),
        InterruptPoint::FailedAsItWaits => (Moment::Begin, Cut::Fail),
    };
    if matches!(place, InterruptPoint::WhileTaskRuns) {
        let (task, time) = task_of(&step.action).unwrap();
        let when = When { task: Some(task.to_owned()), ..When::default() };
        let slow = Fault::new(when, FaultAction::Delay(time));
        rig.lab.faults().add(Fault { times: None, ..slow });
    }
    let plan = rig.plan(text).await;
    assert_eq!(plan.errors().count(), 0, "{} {place:?}\n{}", step.id, show::text(&plan));
    let (hook, times) = once(&step.id, moment, what);
    let ran = rig.carry_out(plan, text, Some(hook)).await;
    rig.lab.faults().clear();
    assert_eq!(*times.lock().unwrap(), 1, "{} {place:?}\n{}", step.id, show::text(&ran.plan));
    assert!(!ran.outcome.is_done(), "{} {place:?}", step.id);
}

fn is_drive(key: &str) -> bool {
    let buses = ["scsi", "ide", "sata", "virtio", "efidisk", "tpmstate", "unused"];
    key != "scsihw" && buses.iter().any(|bus| key.starts_with(bus))
}

/// The inventory `pair` with additional settings for its worker.
fn worker_with(settings: &str) -> String {
    pair().replace("name: wk-1,", &format!("name: wk-1, {settings},"))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_is_added_and_removed() {
    let two = format!("{}  - {{name: wk-2, ip: 10.0.0.22}}\n", pair());
    ClusterChange::new(pair(), two).make_and_undo(SELECTED).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_control_plane_is_removed_and_added() {
    let three = home().replace("  - {name: wk-2, ip: 10.0.0.22}\n", "");
    let two = three.replace("  - {name: cp-3, ip: 10.0.0.13}\n", "");
    ClusterChange::new(three, two).make_and_undo(SELECTED).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dead_control_plane_is_replaced() {
    let three = home().replace("  - {name: wk-2, ip: 10.0.0.22}\n", "");
    ClusterChange { lost: Some("cp-2"), ..ClusterChange::new(three.clone(), three) }
        .repair(SELECTED)
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn memory_of_workers_is_changed() {
    let two = format!("{}  - {{name: wk-2, ip: 10.0.0.22}}\n", pair());
    let more = two.replace("name: wk-", "memory: 6144, name: wk-");
    ClusterChange::new(two, more).make_and_undo(SELECTED).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn configs_are_changed_in_a_wave() {
    let patched =
        format!("{}patches: {{all: [{{machine: {{env: {{WAVE: through}}}}}}]}}\n", pair());
    ClusterChange::new(pair(), patched).make_and_undo(4).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_vm_is_migrated() {
    let lab_options = LabOptions {
        with: vec![("Pool.Audit]", "Pool.Audit, VM.Migrate]".to_owned())],
        ..LabOptions::default()
    };
    let (here, there) = (worker_with("host: pve1"), worker_with("host: pve2"));
    ClusterChange { lab_options, copies_disks: true, ..ClusterChange::new(here, there) }
        .make_and_undo(SELECTED)
        .await;
}

/// Nodes get static addresses. Before, only their guest agents reported their addresses.
#[tokio::test(flavor = "multi_thread")]
async fn addresses_change_from_dhcp_to_static() {
    let image = "image: {extensions: [siderolabs/qemu-guest-agent]}";
    let nodes = PAIR.replace(", ip: 10.0.0.11", "").replace(", ip: 10.0.0.21", "");
    let first = format!("{HEAD}boot: dhcp\n{image}\n{nodes}");
    let second = format!("{HEAD}{image}\n{PAIR}");
    let mut lab_options = LabOptions {
        with: vec![("Pool.Audit]", "Pool.Audit, VM.GuestAgent.Audit]".to_owned())],
        ..LabOptions::default()
    };
    let leases = desired(&first, &bundle()).nodes.into_iter().zip(101..).map(|(node, number)| {
        let mac = node.identity.macs[0].to_string().to_lowercase();
        (mac, format!("10.0.0.{number}/24"))
    });
    lab_options.nodes.leases = leases.collect();
    ClusterChange { lab_options, ..ClusterChange::new(first, second) }.make_once(2).await;
}
