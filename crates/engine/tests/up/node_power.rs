//! Shutdowns and reboots of nodes of a running cluster.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::Duration;

use talmox_engine::execute::StepResult;
use talmox_engine::step::{Cut, CutHook, Moment, StepCode};
use talmox_lab::FaultScript as _;
use talmox_lab::pve::Fault;
use talmox_plan::desired::Contact;
use talmox_plan::plan::{
    Action, AwaitMember, Plan, RebootNode, ShutdownNode, StartVm, Step, StepId, TalosNode,
};
use talmox_pve::api::ha::{self, HaSettings};
use talmox_pve::api::task::{self, Filter};

use super::inventory::{home, pair};
use super::rig::{ADMIN, CompletedRun, Rig, once};
use super::versions::{
    PVE_8_TALOS_11, PVE_8_TALOS_12, PVE_8_TALOS_13, PVE_9_TALOS_11, PVE_9_TALOS_12, PVE_9_TALOS_13,
    Versions, each,
};

const DEADLINE: Duration = Duration::from_mins(30);

/// A running cluster, with its nodes by name.
struct Cluster {
    rig: Rig,
    text: String,
    nodes: BTreeMap<String, TalosNode>,
}

impl Cluster {
    async fn start(versions: Versions, text: &str) -> Self {
        let rig = Rig::of(versions.lab_options());
        let text = versions.inventory(text);
        let ran = rig.up(&text).await;
        ran.assert_done();
        let joined = ran.plan.steps.iter().filter_map(|step| match &step.action {
            Action::AwaitMember(AwaitMember { node, .. }) => {
                Some((node.name.clone(), node.clone()))
            }
            _ => None,
        });
        Self { nodes: joined.collect(), rig, text }
    }

    async fn run(&self, action: Action, cut: Option<CutHook>) -> CompletedRun {
        let step = Step { id: StepId::new("the/step"), node: None, action, after: vec![] };
        let plan = Plan {
            cluster: "home".to_owned(),
            changes: vec![],
            findings: vec![],
            steps: vec![step],
        };
        self.rig.carry_out(plan, &self.text, cut).await
    }

    fn control_planes(&self, node: &TalosNode) -> Vec<TalosNode> {
        let all = self.nodes.values().filter(|one| node.is_control_plane && one.is_control_plane);
        all.cloned().collect()
    }

    fn shutdown(&self, name: &str, deadline: Duration) -> Action {
        let node = self.nodes[name].clone();
        let control_planes = self.control_planes(&node);
        let own = node.own.clone();
        Action::ShutdownNode(ShutdownNode { own, talos: Some(node), control_planes, deadline })
    }

    fn reboot(&self, name: &str) -> Action {
        let node = self.nodes[name].clone();
        let control_planes = self.control_planes(&node);
        Action::RebootNode(RebootNode { node, control_planes, deadline: DEADLINE })
    }

    /// Starts a node, and waits until it has joined the cluster again.
    async fn bring_back(&self, name: &str) {
        let node = self.nodes[name].clone();
        let start = StartVm { own: node.own.clone(), deadline: DEADLINE };
        self.run(Action::StartVm(start), None).await.assert_done();
        let back = AwaitMember { node, shape: None, awaits_ready: false, deadline: DEADLINE };
        self.run(Action::AwaitMember(back), None).await.assert_done();
    }

    async fn is_running(&self, name: &str) -> bool {
        let vmid = self.nodes[name].own.vm.vmid.get();
        self.rig.vms().await[&vmid].status == "running"
    }

    /// Number of tasks of this kind in Proxmox.
    async fn tasks(&self, kind: &str) -> usize {
        let host = &self.nodes["cp-1"].own.vm.node;
        let tasks = self.rig.client(ADMIN).send(&task::list(host, &Filter::default())).await;
        tasks.unwrap().iter().filter(|task| task.upid.kind() == kind).count()
    }

    fn address(&self, name: &str) -> IpAddr {
        match self.nodes[name].contact {
            Contact::At(address) => address,
            Contact::AskAgent => panic!("{name} has no known address"),
        }
    }

    async fn boot_id(&self, name: &str) -> String {
        self.rig.talos(self.address(name)).boot_id().await.unwrap()
    }

    fn inject_fault(&self, fault: &str) {
        let script = format!("faults:\n  - {{{fault}}}\n");
        for fault in Fault::parse("faults.yaml", &script).unwrap() {
            self.rig.lab.faults().add(fault);
        }
    }
}

fn result(ran: &CompletedRun) -> &StepResult {
    &ran.outcome.steps[0].1
}

fn code(ran: &CompletedRun) -> StepCode {
    match result(ran) {
        StepResult::Failed(error) => error.code,
        other => panic!("{other:?}"),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn talos_shuts_a_worker_down_and_it_comes_back() {
    each(&[PVE_9_TALOS_11], talos_shuts_a_worker_down_and_it_comes_back_on).await;
}

async fn talos_shuts_a_worker_down_and_it_comes_back_on(versions: Versions) {
    let cluster = Cluster::start(versions, &pair()).await;
    let ran = cluster.run(cluster.shutdown("wk-1", DEADLINE), None).await;
    assert!(matches!(result(&ran), StepResult::Done), "{}", ran.failures());
    assert_eq!(ran.notes(), Vec::<&str>::new());
    assert!(!cluster.is_running("wk-1").await);
    assert_eq!((cluster.tasks("qmshutdown").await, cluster.tasks("qmstop").await), (0, 0));
    let ran = cluster.run(cluster.shutdown("wk-1", DEADLINE), None).await;
    assert!(matches!(result(&ran), StepResult::Already), "{}", ran.failures());
    cluster.bring_back("wk-1").await;
    assert!(cluster.is_running("wk-1").await);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_does_not_answer_is_shut_down_by_proxmox() {
    each(&[PVE_8_TALOS_12], a_node_that_does_not_answer_is_shut_down_by_proxmox_on).await;
}

async fn a_node_that_does_not_answer_is_shut_down_by_proxmox_on(versions: Versions) {
    let mut cluster = Cluster::start(versions, &pair()).await;
    cluster.rig.closed = &["10.0.0.21"];
    let ran = cluster.run(cluster.shutdown("wk-1", DEADLINE), None).await;
    assert!(matches!(result(&ran), StepResult::Done), "{}", ran.failures());
    assert_eq!(ran.notes(), ["wk-1 does not answer: Proxmox shuts its VM down"]);
    assert!(!cluster.is_running("wk-1").await);
    assert_eq!(cluster.tasks("qmshutdown").await, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn another_system_is_shut_down_by_proxmox() {
    each(&[PVE_9_TALOS_13], another_system_is_shut_down_by_proxmox_on).await;
}

async fn another_system_is_shut_down_by_proxmox_on(versions: Versions) {
    let cluster = Cluster::start(versions, &pair()).await;
    let own = cluster.nodes["wk-1"].own.clone();
    let step = ShutdownNode { own, talos: None, control_planes: vec![], deadline: DEADLINE };
    let ran = cluster.run(Action::ShutdownNode(step), None).await;
    assert!(matches!(result(&ran), StepResult::Done), "{}", ran.failures());
    assert!(!cluster.is_running("wk-1").await);
    assert_eq!(cluster.tasks("qmshutdown").await, 1);
    // Talos does not drain a node that is shut down by ACPI.
    let kube = cluster.rig.kube(&cluster.text);
    assert_eq!(kube.node_cordon("wk-1").await.unwrap().unwrap().by, None);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_vm_of_the_ha_manager_stays_off() {
    each(&[PVE_8_TALOS_11], a_vm_of_the_ha_manager_stays_off_on).await;
}

async fn a_vm_of_the_ha_manager_stays_off_on(versions: Versions) {
    let cluster = Cluster::start(versions, &pair()).await;
    let vmid = cluster.nodes["wk-1"].own.vm.vmid;
    let add = ha::add_resource(vmid, &HaSettings::default());
    cluster.rig.client(ADMIN).send(&add).await.unwrap();
    let ran = cluster.run(cluster.shutdown("wk-1", DEADLINE), None).await;
    assert!(matches!(result(&ran), StepResult::Done), "{}", ran.failures());
    assert_eq!(cluster.tasks("hastop").await, 1);
    // Longer than several rounds of the HA manager.
    cluster.rig.lab.clock().sleep(Duration::from_mins(3)).await;
    assert!(!cluster.is_running("wk-1").await);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_control_plane_stays_up_while_etcd_needs_it() {
    each(&[PVE_9_TALOS_12], a_control_plane_stays_up_while_etcd_needs_it_on).await;
}

async fn a_control_plane_stays_up_while_etcd_needs_it_on(versions: Versions) {
    let cluster = Cluster::start(versions, &home()).await;
    let ran = cluster.run(cluster.shutdown("cp-1", DEADLINE), None).await;
    assert!(matches!(result(&ran), StepResult::Done), "{}", ran.failures());
    assert!(!cluster.is_running("cp-1").await);
    let soon = Duration::from_mins(2);
    let ran = cluster.run(cluster.shutdown("cp-2", soon), None).await;
    assert_eq!(code(&ran), StepCode::QuorumAtRisk, "{}", ran.failures());
    assert!(ran.failures().contains("etcd cannot do without cp-2: cp-1: "), "{}", ran.failures());
    assert!(cluster.is_running("cp-2").await);
    cluster.bring_back("cp-1").await;
    let ran = cluster.run(cluster.shutdown("cp-2", DEADLINE), None).await;
    assert!(matches!(result(&ran), StepResult::Done), "{}", ran.failures());
    let members = cluster.rig.talos(cluster.address("cp-1")).etcd_members().await.unwrap();
    assert_eq!(members.len(), 3);
}

#[tokio::test(flavor = "multi_thread")]
async fn wherever_a_shutdown_is_killed_the_next_run_finishes_it() {
    each(&[PVE_8_TALOS_13], wherever_a_shutdown_is_killed_the_next_run_finishes_it_on).await;
}

async fn wherever_a_shutdown_is_killed_the_next_run_finishes_it_on(versions: Versions) {
    for (moment, cut) in [(Moment::BeforeAct, Cut::Crash), (Moment::AfterAct, Cut::Crash)] {
        let what = format!("{moment:?} {cut:?}");
        let cluster = Cluster::start(versions, &pair()).await;
        let (hook, _) = once(&StepId::new("the/step"), moment, cut);
        let first = cluster.run(cluster.shutdown("wk-1", DEADLINE), Some(hook)).await;
        assert!(!first.outcome.is_done(), "{what}");
        let ran = cluster.run(cluster.shutdown("wk-1", DEADLINE), None).await;
        assert!(ran.outcome.is_done(), "{what}: {}", ran.failures());
        assert!(!cluster.is_running("wk-1").await, "{what}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_shutdown_whose_answer_was_lost_is_waited_for() {
    each(&[PVE_9_TALOS_11], a_shutdown_whose_answer_was_lost_is_waited_for_on).await;
}

async fn a_shutdown_whose_answer_was_lost_is_waited_for_on(versions: Versions) {
    let cluster = Cluster::start(versions, &pair()).await;
    cluster.inject_fault("talos: Shutdown, node: wk-1, cut: after");
    let ran = cluster.run(cluster.shutdown("wk-1", DEADLINE), None).await;
    assert!(matches!(result(&ran), StepResult::Done), "{}", ran.failures());
    assert!(!cluster.is_running("wk-1").await);
    assert_eq!(cluster.tasks("qmshutdown").await, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_rebooted_runs_in_another_boot() {
    each(&[PVE_8_TALOS_12], a_node_that_rebooted_runs_in_another_boot_on).await;
}

async fn a_node_that_rebooted_runs_in_another_boot_on(versions: Versions) {
    let cluster = Cluster::start(versions, &home()).await;
    for name in ["wk-1", "cp-1", "cp-2", "cp-3"] {
        let before = cluster.boot_id(name).await;
        let ran = cluster.run(cluster.reboot(name), None).await;
        assert!(matches!(result(&ran), StepResult::Done), "{name}: {}", ran.failures());
        assert_ne!(cluster.boot_id(name).await, before, "{name}");
    }
    let members = cluster.rig.talos(cluster.address("cp-1")).etcd_members().await.unwrap();
    assert_eq!(members.len(), 3);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reboot_whose_answer_was_lost_is_one_reboot() {
    each(&[PVE_9_TALOS_13], a_reboot_whose_answer_was_lost_is_one_reboot_on).await;
}

async fn a_reboot_whose_answer_was_lost_is_one_reboot_on(versions: Versions) {
    for cut in ["before", "after"] {
        let cluster = Cluster::start(versions, &pair()).await;
        let before = cluster.boot_id("wk-1").await;
        cluster.inject_fault(&format!("talos: Reboot, node: wk-1, cut: {cut}"));
        let ran = cluster.run(cluster.reboot("wk-1"), None).await;
        assert!(matches!(result(&ran), StepResult::Done), "{cut}: {}", ran.failures());
        assert_ne!(cluster.boot_id("wk-1").await, before, "{cut}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_control_plane_is_not_rebooted_while_another_one_is_down() {
    each(&[PVE_8_TALOS_11], a_control_plane_is_not_rebooted_while_another_one_is_down_on).await;
}

async fn a_control_plane_is_not_rebooted_while_another_one_is_down_on(versions: Versions) {
    let cluster = Cluster::start(versions, &home()).await;
    let ran = cluster.run(cluster.shutdown("cp-3", DEADLINE), None).await;
    assert!(matches!(result(&ran), StepResult::Done), "{}", ran.failures());
    let before = cluster.boot_id("cp-1").await;
    let Action::RebootNode(step) = cluster.reboot("cp-1") else { panic!("another action") };
    let step = RebootNode { deadline: Duration::from_mins(2), ..step };
    let ran = cluster.run(Action::RebootNode(step), None).await;
    assert_eq!(code(&ran), StepCode::QuorumAtRisk, "{}", ran.failures());
    assert_eq!(cluster.boot_id("cp-1").await, before);
}

#[tokio::test(flavor = "multi_thread")]
async fn another_machine_is_neither_shut_down_nor_rebooted() {
    each(&[PVE_9_TALOS_12], another_machine_is_neither_shut_down_nor_rebooted_on).await;
}

async fn another_machine_is_neither_shut_down_nor_rebooted_on(versions: Versions) {
    let cluster = Cluster::start(versions, &pair()).await;
    let mut node = cluster.nodes["wk-1"].clone();
    node.expected.uuid = Some("00000000-1111-4222-8333-444444444444".to_owned());
    let before = cluster.boot_id("wk-1").await;
    let shutdown = ShutdownNode {
        own: node.own.clone(),
        talos: Some(node.clone()),
        control_planes: vec![],
        deadline: DEADLINE,
    };
    let reboot = RebootNode { node, control_planes: vec![], deadline: DEADLINE };
    for action in [Action::ShutdownNode(shutdown), Action::RebootNode(reboot)] {
        let ran = cluster.run(action, None).await;
        assert_eq!(code(&ran), StepCode::WrongMachine, "{}", ran.failures());
    }
    assert!(cluster.is_running("wk-1").await);
    assert_eq!(cluster.boot_id("wk-1").await, before);
}
