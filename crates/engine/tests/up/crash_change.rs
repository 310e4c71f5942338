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

use super::crash::{Place, task_of};
use super::inventory::{HEAD, PAIR, bundle, desired, home, pair};
use super::picture::Picture;
use super::rig::{Rig, Yard, once};

/// Number of interruptions of one direction of a change, unless all are tested.
const SELECTED: usize = 8;
const SEED: u64 = 9;
const PLACES: [Place; 6] = [
    Place::BeforeAct,
    Place::AfterAct,
    Place::Failed,
    Place::WhileTaskRuns,
    Place::AsItWaits,
    Place::FailedAsItWaits,
];

/// A change of a cluster, and its reverse.
struct Story {
    first: String,
    second: String,
    yard: Yard,
    /// Node whose VM a user deletes before each run.
    lost: Option<&'static str>,
    /// Whether volumes get other names, because Proxmox chooses new names when it copies a disk to another host.
    copies_disks: bool,
}

/// Target inventory of a run, and the places at which the run is interrupted.
struct Turn<'s> {
    text: &'s str,
    cuts: Vec<(Step, Place)>,
    /// State of the cluster after an undisturbed run.
    goal: Picture,
}

impl Story {
    fn new(first: String, second: String) -> Self {
        Self { first, second, yard: Yard::default(), lost: None, copies_disks: false }
    }

    async fn started(&self) -> Rig {
        let mut rig = Rig::of(self.yard.clone());
        rig.scope = Scope { removal: RemovalConsent::All, ..Scope::default() };
        rig.up(&self.first).await.assert_done();
        rig
    }

    /// Makes and undoes the change in turns, each time with another interruption.
    async fn there_and_back(self, least: usize) {
        let rig = self.started().await;
        let there = Box::pin(self.undisturbed(&rig, &self.second)).await;
        let back = Box::pin(self.undisturbed(&rig, &self.first)).await;
        assert!(there.cuts.len() >= least, "{}", there.cuts.len());
        let turns = there.cuts.len().max(back.cuts.len());
        for nth in 0..turns {
            for turn in [&there, &back] {
                Box::pin(self.interrupted(&rig, turn, turn.cuts.get(nth))).await;
            }
        }
    }

    /// Makes a change that is not undone. Each interruption has a separate lab.
    async fn one_way(self, least: usize) {
        let first = self.started().await;
        let turn = Box::pin(self.undisturbed(&first, &self.second)).await;
        assert!(turn.cuts.len() >= least, "{}", turn.cuts.len());
        drop(first);
        for cut in &turn.cuts {
            let rig = self.started().await;
            Box::pin(self.interrupted(&rig, &turn, Some(cut))).await;
        }
    }

    /// Repairs a cluster that lost a VM, each time with another interruption.
    async fn again(self, least: usize) {
        let rig = self.started().await;
        let turn = Box::pin(self.undisturbed(&rig, &self.first)).await;
        assert!(turn.cuts.len() >= least, "{}", turn.cuts.len());
        for cut in &turn.cuts {
            Box::pin(self.interrupted(&rig, &turn, Some(cut))).await;
        }
    }

    /// Runs without interruption, and records the steps that made a change.
    async fn undisturbed<'s>(&self, rig: &Rig, text: &'s str) -> Turn<'s> {
        self.lose(rig).await;
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
        Turn { text, cuts, goal: self.picture(rig, text).await }
    }

    async fn lose(&self, rig: &Rig) {
        if let Some(name) = self.lost {
            let vms = rig.vms().await;
            let found = vms.iter().find(|(_, vm)| vm.config["name"] == name);
            rig.delete_vm(*found.unwrap().0).await;
        }
    }

    /// Interrupts a run, then runs the same command again.
    async fn interrupted(&self, rig: &Rig, turn: &Turn<'_>, cut: Option<&(Step, Place)>) {
        self.lose(rig).await;
        let place = match cut {
            Some((step, place)) => {
                Box::pin(interrupt(rig, turn.text, step, *place)).await;
                rig.watcher.assert_none();
                format!("{} {place:?}", step.id)
            }
            None => "without interruption".to_owned(),
        };
        let plan = rig.plan(turn.text).await;
        assert_eq!(plan.errors().count(), 0, "{place}\n{}", show::text(&plan));
        let ran = rig.carry_out(plan, turn.text, None).await;
        assert!(ran.outcome.is_done(), "{place}\n{}\n{}", ran.failures(), show::text(&ran.plan));
        assert_eq!(self.picture(rig, turn.text).await, turn.goal, "{place}");
        let rest = rig.plan(turn.text).await;
        assert!(rest.is_empty(), "{place}\n{}", show::text(&rest));
        rig.watcher.assert_none();
    }

    /// The state of the cluster, without names that differ from run to run.
    async fn picture(&self, rig: &Rig, text: &str) -> Picture {
        let mut picture = rig.picture(text).await;
        if self.copies_disks {
            picture.volumes = BTreeMap::new();
            for vm in picture.vms.values_mut() {
                vm.config.retain(|key, _| !is_drive(key));
            }
        }
        picture
    }
}

/// All places at which a run with these steps can be interrupted.
fn cuts(steps: &[Step], acted: &BTreeSet<StepId>) -> Vec<(Step, Place)> {
    let fits = |step: &Step, place: Place| match place {
        Place::BeforeAct | Place::AfterAct | Place::Failed => acted.contains(&step.id),
        Place::WhileTaskRuns => acted.contains(&step.id) && task_of(&step.action).is_some(),
        Place::AsItWaits | Place::FailedAsItWaits => !acted.contains(&step.id),
    };
    let all = PLACES.into_iter().flat_map(|place| steps.iter().map(move |step| (step, place)));
    all.filter(|(step, place)| fits(step, *place))
        .map(|(step, place)| (step.clone(), place))
        .collect()
}

fn selected(mut cuts: Vec<(Step, Place)>) -> Vec<(Step, Place)> {
    let mut chance = Chance::new(SEED);
    while cuts.len() > SELECTED && option_env!("TALMOX_EVERY_CUT").is_none() {
        let count = u64::try_from(cuts.len()).unwrap();
        cuts.remove(usize::try_from(chance.below(count)).unwrap());
    }
    cuts
}

/// Interrupts a run at this place.
async fn interrupt(rig: &Rig, text: &str, step: &Step, place: Place) {
    let (moment, what) = match place {
        Place::BeforeAct => (Moment::BeforeAct, Cut::Crash),
        Place::AfterAct | Place::WhileTaskRuns => (Moment::AfterAct, Cut::Crash),
        Place::Failed => (Moment::BeforeAct, Cut::Fail),
        Place::AsItWaits => (Moment::Begin, Cut::Crash),
        Place::FailedAsItWaits => (Moment::Begin, Cut::Fail),
    };
    if matches!(place, Place::WhileTaskRuns) {
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
    Story::new(pair(), two).there_and_back(SELECTED).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_control_plane_is_removed_and_added() {
    let three = home().replace("  - {name: wk-2, ip: 10.0.0.22}\n", "");
    let two = three.replace("  - {name: cp-3, ip: 10.0.0.13}\n", "");
    Story::new(three, two).there_and_back(SELECTED).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dead_control_plane_is_replaced() {
    let three = home().replace("  - {name: wk-2, ip: 10.0.0.22}\n", "");
    Story { lost: Some("cp-2"), ..Story::new(three.clone(), three) }.again(SELECTED).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn memory_of_workers_is_changed() {
    let two = format!("{}  - {{name: wk-2, ip: 10.0.0.22}}\n", pair());
    let more = two.replace("name: wk-", "memory: 6144, name: wk-");
    Story::new(two, more).there_and_back(SELECTED).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn configs_are_changed_in_a_wave() {
    let patched =
        format!("{}patches: {{all: [{{machine: {{env: {{WAVE: through}}}}}}]}}\n", pair());
    Story::new(pair(), patched).there_and_back(4).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_vm_is_migrated() {
    let yard = Yard {
        with: vec![("Pool.Audit]", "Pool.Audit, VM.Migrate]".to_owned())],
        ..Yard::default()
    };
    let (here, there) = (worker_with("host: pve1"), worker_with("host: pve2"));
    Story { yard, copies_disks: true, ..Story::new(here, there) }.there_and_back(SELECTED).await;
}

/// Nodes get static addresses. Before, only their guest agents reported their addresses.
#[tokio::test(flavor = "multi_thread")]
async fn addresses_change_from_dhcp_to_static() {
    let image = "image: {extensions: [siderolabs/qemu-guest-agent]}";
    let nodes = PAIR.replace(", ip: 10.0.0.11", "").replace(", ip: 10.0.0.21", "");
    let first = format!("{HEAD}boot: dhcp\n{image}\n{nodes}");
    let second = format!("{HEAD}{image}\n{PAIR}");
    let mut yard = Yard {
        with: vec![("Pool.Audit]", "Pool.Audit, VM.GuestAgent.Audit]".to_owned())],
        ..Yard::default()
    };
    let leases = desired(&first, &bundle()).nodes.into_iter().zip(101..).map(|(node, number)| {
        let mac = node.identity.macs[0].to_string().to_lowercase();
        (mac, format!("10.0.0.{number}/24"))
    });
    yard.nodes.leases = leases.collect();
    Story { yard, ..Story::new(first, second) }.one_way(2).await;
}
