//! However an inventory is edited between two runs, whatever of the first run is left, and whatever cannot be read: there is
//! never a second etcd cluster. The lab counts them, behind all APIs.

use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Duration;

use talmox_clock::Chance;
use talmox_engine::step::{Cut, CutHook, Moment};
use talmox_lab::pve::Action as FaultAction;
use talmox_plan::plan::Plan;
use tokio::task::JoinSet;

use super::rig::Rig;

const HEAD: &str = "
cluster_name: home
talos_version: v1.11.2
proxmox: {endpoint: 'https://pve1:8006', node: pve1, pool: talos, vmid_range: 300-399}
timeouts: {task: 5m, image: 10m, boot: 3m, bootstrap: 5m, health: 4m}
";
/// So many combinations are tried, so many at the same time.
const CASES: u64 = 36;
const AT_ONCE: usize = 12;

/// Three control planes: what an inventory says of them.
#[derive(Clone, Debug)]
struct Inventory {
    has_vip: bool,
    /// Name, last part of the address, number.
    nodes: Vec<(String, u8, Option<u32>)>,
}

impl Inventory {
    fn first(has_vip: bool) -> Self {
        let node = |nth: u8| (format!("cp-{nth}"), 10 + nth, None);
        Self { has_vip, nodes: (1..=3).map(node).collect() }
    }

    fn text(&self) -> String {
        let vip = if self.has_vip { ", vip: 10.0.0.20" } else { "" };
        let mut text = format!(
            "{HEAD}network: {{subnet: 10.0.0.0/24, gateway: 10.0.0.1, nameservers: [1.1.1.1]{vip}}}\ncontrolplane:\n"
        );
        for (name, address, vmid) in &self.nodes {
            let vmid = vmid.map(|vmid| format!(", vmid: {vmid}")).unwrap_or_default();
            writeln!(text, "  - {{name: {name}, ip: 10.0.0.{address}{vmid}}}").unwrap();
        }
        text
    }

    /// The edit before the second run.
    fn edited(&self, chance: &mut Chance) -> Self {
        let mut edited = self.clone();
        let turn = usize::try_from(chance.below(3)).unwrap();
        edited.nodes.rotate_left(turn);
        if chance.below(2) == 0 {
            for (name, ..) in &mut edited.nodes {
                *name = name.replace("cp-", "master-");
            }
        }
        if chance.below(2) == 0 {
            for (_, address, _) in &mut edited.nodes {
                *address += 50;
            }
        }
        if chance.below(2) == 0 {
            for (nth, (.., vmid)) in (350..).zip(&mut edited.nodes) {
                *vmid = Some(nth);
            }
        }
        edited
    }
}

/// Kills the run at a step and moment drawn by chance.
fn killed(chance: &mut Chance) -> CutHook {
    let after = std::sync::atomic::AtomicU64::new(5 + chance.below(60));
    Arc::new(move |_, moment| {
        let is_it =
            moment != Moment::Begin && after.fetch_sub(1, std::sync::atomic::Ordering::SeqCst) == 1;
        if is_it { Cut::Crash } else { Cut::Go }
    })
}

/// Some VMs cannot be read any more.
fn make_unreadable(rig: &Rig, chance: &mut Chance) {
    let refuse =
        || FaultAction::Refuse { status: 500, message: "got no answer from the host".into() };
    let kinds: &[&str] = match chance.below(4) {
        0 => &[],
        1 => &["config"],
        2 => &["pending"],
        _ => &["config", "pending"],
    };
    for kind in kinds {
        for vmid in 300..=302 {
            if chance.below(2) == 0 {
                let path = format!("/nodes/{{node}}/qemu/{vmid}/{kind}");
                rig.strike("GET", &path, u64::MAX, refuse());
            }
        }
    }
}

async fn carry_out(rig: &Rig, plan: Plan, text: &str, cut: Option<CutHook>) -> String {
    if plan.errors().next().is_some() || plan.open_changes().next().is_some() {
        return "refused by the plan".to_owned();
    }
    let ran = rig.carry_out(plan, text, cut).await;
    if ran.outcome.is_done() { "done".to_owned() } else { ran.failures() }
}

/// One case; says what came of it.
async fn case(seed: u64) -> (usize, String) {
    let mut chance = Chance::new(seed);
    let rig = Rig::start();
    let first = Inventory::first(chance.below(3) > 0);
    let second = first.edited(&mut chance);
    let (one, other) = (first.text(), second.text());
    // Two people look at the same empty Proxmox, and one is slow to say yes.
    let is_stale = chance.below(2) == 0;
    let early = if is_stale { Some(rig.plan(&other).await) } else { None };
    let cut = (chance.below(3) == 0).then(|| killed(&mut chance));
    let plan = rig.plan(&one).await;
    let begun = carry_out(&rig, plan, &one, cut).await;
    make_unreadable(&rig, &mut chance);
    // The list of all VMs learns of them with the next round of the status daemon.
    rig.lab.clock().sleep(Duration::from_secs(20)).await;
    let plan = match early {
        Some(plan) => plan,
        None => rig.plan(&other).await,
    };
    let ended = carry_out(&rig, plan, &other, None).await;
    let story = format!(
        "seed {seed}, stale plan: {is_stale}\n{first:?}\n{second:?}\nfirst: {begun}\nsecond: {ended}"
    );
    (rig.lab.etcd_clusters(), story)
}

#[tokio::test(flavor = "multi_thread")]
async fn no_edit_and_no_failure_between_two_runs_makes_a_second_etcd() {
    let (mut cases, mut seeds) = (JoinSet::new(), 0..CASES);
    let mut stories = vec![];
    loop {
        while cases.len() < AT_ONCE
            && let Some(seed) = seeds.next()
        {
            cases.spawn(case(seed));
        }
        let Some(ended) = cases.join_next().await else { break };
        let (clusters, story) = ended.unwrap();
        assert!(clusters <= 1, "{clusters} etcd clusters:\n{story}");
        stories.push((clusters, story));
    }
    // The cases must be worth something: most come to a cluster, and some are stopped right before a second one.
    let made = stories.iter().filter(|(clusters, _)| *clusters == 1).count();
    let stopped =
        stories.iter().filter(|(_, story)| story.contains("etcd is not bootstrapped")).count();
    let all: Vec<&str> = stories.iter().map(|(_, story)| story.as_str()).collect();
    assert!(made > stories.len() / 2 && stopped > 0, "{made} {stopped}\n{}", all.join("\n\n"));
}
