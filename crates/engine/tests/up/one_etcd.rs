//! No edit of the inventory or of VMs between two runs, and no failure, leads to a second etcd cluster. The cases vary what
//! remains of the first run, and what cannot be read or reached. The lab counts etcd clusters internally, not through an API.

use std::hash::{BuildHasher as _, Hasher as _, RandomState};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use talmox_clock::Chance;
use talmox_engine::step::{Context, Cut, CutHook, Moment};
use talmox_lab::pve::Action as FaultAction;
use talmox_plan::ownership::ClusterMark;
use talmox_plan::plan::{Action, ClusterSigns, Plan};
use tokio::task::JoinSet;

use super::edited_inventory::Inventory;
use super::edited_proxmox::ProxmoxEdit;
use super::rig::Rig;

/// Number of combinations, and number of combinations at the same time.
const CASES: u64 = 36;
const AT_ONCE: usize = 12;
/// Number of combinations with edits in Proxmox, in addition to one with a random seed for each run of the test.
const EDITED_CASES: u64 = 15;
/// Number of combinations without witnesses.
const BLIND_CASES: usize = 6;

/// Two runs, and the events between them.
#[derive(Clone, Debug)]
struct Case {
    seed: u64,
    first: Inventory,
    second: Inventory,
    /// Whether the second plan was made before the first run. This happens if two users plan with the same empty Proxmox, and
    /// one of them confirms late.
    is_stale: bool,
    /// Whether the first nodes cannot be reached when the second run starts.
    is_cut_off: bool,
    /// Number of changes after which the first run is killed. None if it is not killed.
    killed_after: Option<u64>,
    /// API paths of VM configs that cannot be read when the second run starts.
    unreadable: &'static [&'static str],
    /// Edit of the VMs of the first run in Proxmox.
    edit: Option<ProxmoxEdit>,
}

impl Case {
    /// A random case in which VMs are edited in Proxmox after the first run.
    fn draw_edited(seed: u64) -> Self {
        let mut chance = Chance::new(seed).of("proxmox", 0);
        let first = Inventory::draw(&mut chance).with_volumes();
        let second = first.edited(&mut chance);
        Self {
            seed,
            first,
            second,
            is_stale: chance.below(2) == 0,
            is_cut_off: chance.below(3) == 0,
            killed_after: None,
            unreadable: &[],
            edit: Some(ProxmoxEdit::draw(&mut chance)),
        }
    }

    fn draw(seed: u64) -> Self {
        let mut chance = Chance::new(seed);
        let first = Inventory::draw(&mut chance);
        let second = first.edited(&mut chance);
        Self {
            seed,
            first,
            second,
            is_stale: chance.below(2) == 0,
            is_cut_off: chance.below(3) == 0,
            killed_after: (chance.below(3) == 0).then(|| 5 + chance.below(60)),
            unreadable: match chance.below(4) {
                0 => &["config"],
                1 => &["pending"],
                2 => &["config", "pending"],
                _ => &[],
            },
            edit: None,
        }
    }

    /// Whether only witnesses prevent a second etcd cluster. In such a case new nodes find the old nodes neither through
    /// discovery nor at a shared address, and the plan has no errors.
    fn may_split(&self) -> bool {
        // A plan that is made after the first run recognises the VMs of former control planes by their notes.
        let is_planned = self.is_stale && self.second.has_other_vmids(&self.first);
        is_planned && self.killed_after.is_none() && self.second.is_apart_from(&self.first)
    }
}

/// Hook that kills the run after this number of changes.
fn killed(after: u64) -> CutHook {
    let after = AtomicU64::new(after);
    Arc::new(move |_, moment| {
        let is_it = moment != Moment::Begin && after.fetch_sub(1, Ordering::SeqCst) == 1;
        if is_it { Cut::Crash } else { Cut::Go }
    })
}

/// Makes some VMs unreadable.
fn make_unreadable(rig: &Rig, case: &Case) {
    let reject =
        || FaultAction::Reject { status: 500, message: "got no answer from the host".into() };
    let mut chance = Chance::new(case.seed).of("unreadable", 0);
    for kind in case.unreadable {
        for vmid in 300..=302 {
            if chance.below(2) == 0 {
                let path = format!("/nodes/{{node}}/qemu/{vmid}/{kind}");
                rig.inject_fault("GET", &path, u64::MAX, reject());
            }
        }
    }
}

/// Whether a run reads the witnesses before it bootstraps etcd.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Witnesses {
    Asked,
    /// The step searches for signs of another cluster, so that it recognises no VM, address or API of this one. The rest is
    /// as in any other run.
    Blind,
}

impl Witnesses {
    fn prepare(self, plan: &mut Plan, context: &mut Context, own: &[String]) {
        if self == Self::Asked {
            return;
        }
        for step in &mut plan.steps {
            let Action::BootstrapEtcd(bootstrap) = &mut step.action else { continue };
            bootstrap.witnesses.clear();
            bootstrap.signs = ClusterSigns {
                cluster: "another".to_owned(),
                mark: ClusterMark::of("another"),
                nodes: vec![],
                addresses: vec![],
            };
        }
        let access = context.cluster.as_mut().unwrap();
        access.earlier.clear();
        access.api.retain(|address| own.contains(&address.host));
        let mut bundle = (*access.bundle).clone();
        "another".clone_into(&mut bundle.cluster.id);
        access.bundle = Arc::new(bundle);
    }
}

async fn carry_out(
    rig: &Rig,
    mut plan: Plan,
    inventory: &Inventory,
    cut: Option<CutHook>,
    witnesses: Witnesses,
) -> String {
    if plan.errors().next().is_some() || plan.open_changes().next().is_some() {
        let errors = plan.errors().map(|error| error.message.clone());
        return format!("rejected by the plan: {}", errors.collect::<Vec<_>>().join("; "));
    }
    let mut context = rig.context(&inventory.text(), cut);
    witnesses.prepare(&mut plan, &mut context, &inventory.addresses());
    let ran = rig.carry_out_in(plan, context).await;
    if ran.outcome.is_done() { "done".to_owned() } else { ran.failures() }
}

/// Runs one case. Returns the number of etcd clusters, and a description of both runs.
async fn carry_out_case(case: Case, witnesses: Witnesses) -> (usize, String) {
    let mut rig = Rig::start();
    let (one, other) = (case.first.text(), case.second.text());
    let early = if case.is_stale { Some(rig.plan(&other).await) } else { None };
    let plan = rig.plan(&one).await;
    let cut = case.killed_after.map(killed);
    let started = carry_out(&rig, plan, &case.first, cut, Witnesses::Asked).await;
    if let Some(edit) = case.edit {
        edit.apply(&rig).await;
    }
    make_unreadable(&rig, &case);
    if case.is_cut_off {
        rig.closed = &["10.0.0.11", "10.0.0.12", "10.0.0.13"];
    }
    // The list of all VMs shows the VMs after the next round of the status daemon.
    rig.lab.clock().sleep(Duration::from_secs(20)).await;
    let plan = match early {
        Some(plan) => plan,
        None => rig.plan(&other).await,
    };
    let ended = carry_out(&rig, plan, &case.second, None, witnesses).await;
    let story = format!("{case:#?}\nfirst: {started}\nsecond: {ended}");
    (rig.lab.etcd_clusters(), story)
}

/// Runs all cases, some at the same time.
async fn carry_out_all(
    cases: impl IntoIterator<Item = Case>,
    witnesses: Witnesses,
) -> Vec<(usize, String)> {
    let (mut running, mut cases) = (JoinSet::new(), cases.into_iter());
    let mut stories = vec![];
    loop {
        while running.len() < AT_ONCE
            && let Some(case) = cases.next()
        {
            running.spawn(carry_out_case(case, witnesses));
        }
        let Some(ended) = running.join_next().await else { return stories };
        stories.push(ended.unwrap());
    }
}

fn shown(stories: &[(usize, String)]) -> String {
    let shown =
        stories.iter().map(|(clusters, story)| format!("{clusters} etcd clusters:\n{story}"));
    shown.collect::<Vec<_>>().join("\n\n")
}

#[tokio::test(flavor = "multi_thread")]
async fn no_edit_and_no_failure_between_two_runs_makes_a_second_etcd() {
    let stories = carry_out_all((0..CASES).map(Case::draw), Witnesses::Asked).await;
    let split: Vec<(usize, String)> =
        stories.iter().filter(|(clusters, _)| *clusters > 1).cloned().collect();
    assert!(split.is_empty(), "{}", shown(&split));
    // The cases must be meaningful: most create a cluster, and some are stopped right before a second one.
    let made = stories.iter().filter(|(clusters, _)| *clusters == 1).count();
    let stopped =
        stories.iter().filter(|(_, story)| story.contains("etcd is not bootstrapped")).count();
    assert!(made > stories.len() / 2 && stopped > 0, "{made} {stopped}\n{}", shown(&stories));
}

#[tokio::test(flavor = "multi_thread")]
async fn no_edit_in_proxmox_between_two_runs_makes_a_second_etcd() {
    let drawn = RandomState::new().build_hasher().finish();
    eprintln!("drawn seed: {drawn}");
    let cases = (0..EDITED_CASES).chain([drawn]).map(Case::draw_edited);
    let stories = carry_out_all(cases, Witnesses::Asked).await;
    let split: Vec<(usize, String)> =
        stories.iter().filter(|(clusters, _)| *clusters > 1).cloned().collect();
    assert!(split.is_empty(), "drawn seed: {drawn}\n{}", shown(&split));
    // Some runs are stopped only by the tags or UUIDs of the VMs.
    let stopped =
        stories.iter().filter(|(_, story)| story.contains("no valid marker in its notes")).count();
    assert!(stopped > 0, "{}", shown(&stories));
}

/// Shows that the first test can fail: without witnesses, some of the same cases end with two etcd clusters.
#[tokio::test(flavor = "multi_thread")]
async fn without_witnesses_the_same_cases_make_a_second_etcd() {
    let cases: Vec<Case> = (0..CASES).map(Case::draw).filter(Case::may_split).collect();
    assert!(!cases.is_empty(), "the seeds have no such case");
    let stories = carry_out_all(cases.into_iter().take(BLIND_CASES), Witnesses::Blind).await;
    let split = stories.iter().filter(|(clusters, _)| *clusters > 1).count();
    assert!(split > 0, "{}", shown(&stories));
}
