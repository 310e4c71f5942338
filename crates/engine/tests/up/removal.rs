//! Nodes that are removed, replaced, or created again after their VM was lost. The results are read from the lab.

use std::num::NonZeroUsize;
use std::time::Duration;

use talmox_engine::step::{Cut, Moment};
use talmox_plan::plan::{Change, Left, Object, StepId};
use talmox_plan::planning::{Part, RemovalConsent, Scope};

use super::inventory::HEAD;
use super::lab_state::VmState;
use super::rig::{CompletedRun, Rig, once};
use super::versions::{
    PVE_8_TALOS_11, PVE_8_TALOS_12, PVE_8_TALOS_13, PVE_9_TALOS_11, PVE_9_TALOS_12, PVE_9_TALOS_13,
    Versions, each,
};

const PLANES: [&str; 5] = ["cp-1", "cp-2", "cp-3", "cp-4", "cp-5"];
const WORKERS: [&str; 4] = ["wk-1", "wk-2", "wk-3", "wk-4"];

/// An inventory with these nodes. The last digit of a name is the last digit of the address.
fn inventory(versions: Versions, planes: &[&str], workers: &[&str]) -> String {
    let entries = |names: &[&str], tens: u8| -> String {
        let entry = |name: &&str| {
            let digit = name.chars().last().unwrap();
            format!("  - {{name: {name}, ip: 10.0.0.{tens}{digit}}}\n")
        };
        names.iter().map(entry).collect()
    };
    let (planes, workers) = (entries(planes, 1), entries(workers, 2));
    versions.inventory(&format!("{HEAD}\ncontrolplane:\n{planes}workers:\n{workers}"))
}

fn all() -> Scope {
    Scope { removal: RemovalConsent::All, ..Scope::default() }
}

fn replacing(name: &str) -> Scope {
    Scope { replace: [name.to_owned()].into(), ..all() }
}

async fn started(versions: Versions, text: &str) -> Rig {
    let mut rig = Rig::of(versions.lab_options());
    rig.scope = all();
    rig.up(text).await.assert_done();
    rig
}

/// The VM of a node, and its vmid.
async fn vm_of(rig: &Rig, name: &str) -> (u32, VmState) {
    let vms = rig.vms().await;
    let found =
        vms.into_iter().find(|(_, vm)| vm.config.get("name").is_some_and(|own| own == name));
    found.unwrap_or_else(|| panic!("{name} has no VM"))
}

/// The parts of a VM that identify its node.
fn identity(vm: &VmState) -> [&str; 3] {
    ["smbios1", "net0", "ipconfig0"].map(|key| vm.config[key].as_str())
}

async fn member_id(rig: &Rig, name: &str) -> u64 {
    let members = rig.talos("10.0.0.11".parse().unwrap()).etcd_members().await.unwrap();
    let mut own = members.iter().filter(|member| member.hostname == name);
    let found = own.next().unwrap_or_else(|| panic!("{name} is not a member")).id;
    assert!(own.next().is_none(), "{name} has two members");
    found
}

fn has_step(ran: &CompletedRun, id: &str) -> bool {
    ran.plan.steps.iter().any(|step| step.id.as_str() == id)
}

#[tokio::test(flavor = "multi_thread")]
async fn control_planes_scale_from_three_to_five_and_back() {
    each(&[PVE_9_TALOS_11], control_planes_scale_from_three_to_five_and_back_on).await;
}

async fn control_planes_scale_from_three_to_five_and_back_on(versions: Versions) {
    let (three, five) =
        (inventory(versions, &PLANES[..3], &["wk-1"]), inventory(versions, &PLANES, &["wk-1"]));
    let rig = started(versions, &three).await;
    rig.converge(&five).await;
    rig.lab_state(&five).await.assert_complete(&PLANES, &["wk-1"]);
    let ran = rig.converge(&three).await;
    assert!(has_step(&ran, "etcd/cp-4/leave") && has_step(&ran, "talos/cp-5/reset"));
    rig.lab_state(&three).await.assert_complete(&PLANES[..3], &["wk-1"]);
    assert_eq!(rig.lab.etcd_clusters(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn control_planes_scale_from_one_to_three_and_back() {
    each(&[PVE_8_TALOS_13], control_planes_scale_from_one_to_three_and_back_on).await;
}

async fn control_planes_scale_from_one_to_three_and_back_on(versions: Versions) {
    let (one, three) = (
        inventory(versions, &PLANES[..1], &["wk-1"]),
        inventory(versions, &PLANES[..3], &["wk-1"]),
    );
    let rig = started(versions, &one).await;
    rig.converge(&three).await;
    rig.lab_state(&three).await.assert_complete(&PLANES[..3], &["wk-1"]);
    rig.converge(&one).await;
    rig.lab_state(&one).await.assert_complete(&PLANES[..1], &["wk-1"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn workers_scale_from_two_to_four_and_back() {
    each(&[PVE_9_TALOS_13], workers_scale_from_two_to_four_and_back_on).await;
}

async fn workers_scale_from_two_to_four_and_back_on(versions: Versions) {
    let (two, four) =
        (inventory(versions, &["cp-1"], &WORKERS[..2]), inventory(versions, &["cp-1"], &WORKERS));
    let mut rig = started(versions, &two).await;
    rig.scope.max_unavailable = NonZeroUsize::new(2).unwrap();
    rig.converge(&four).await;
    rig.lab_state(&four).await.assert_complete(&["cp-1"], &WORKERS);
    let ran = rig.converge(&two).await;
    assert!(has_step(&ran, "node/wk-3/drain") && has_step(&ran, "node/wk-4/delete"));
    rig.lab_state(&two).await.assert_complete(&["cp-1"], &WORKERS[..2]);
    let nodes = rig.kube(&two).nodes().await.unwrap();
    let names: Vec<&str> = nodes.iter().map(|node| node.name.as_str()).collect();
    assert_eq!(names, ["cp-1", "wk-1", "wk-2"]);
}

/// The VMs have neither an address in their configs nor a guest agent. The address of an orphan is known from Kubernetes.
#[tokio::test(flavor = "multi_thread")]
async fn orphans_with_a_config_volume_are_reset_before_their_vms_are_deleted() {
    let by_volume = |text: String| text.replace("controlplane:", "boot: cidata\ncontrolplane:");
    let text = by_volume(inventory(PVE_9_TALOS_12, &PLANES[..3], &WORKERS[..2]));
    let rig = started(PVE_9_TALOS_12, &text).await;
    for (name, rest) in [
        ("wk-2", by_volume(inventory(PVE_9_TALOS_12, &PLANES[..3], &["wk-1"]))),
        ("cp-3", by_volume(inventory(PVE_9_TALOS_12, &PLANES[..2], &["wk-1"]))),
    ] {
        let (vmid, vm) = vm_of(&rig, name).await;
        assert!(!vm.config.contains_key("ipconfig0"), "{vm:?}");
        let plan = rig.plan(&rest).await;
        let (killed, times) =
            once(&StepId::new(format!("vm/{name}/stop")), Moment::Begin, Cut::Crash);
        rig.carry_out(plan, &rest, Some(killed)).await;
        assert_eq!(*times.lock().unwrap(), 1);
        // The node powered off after its reset: no request stopped its VM. The list of all VMs shows it some seconds later.
        let mut status = String::new();
        for _ in 0..60 {
            status = vm_of(&rig, name).await.1.status;
            if status == "stopped" {
                break;
            }
            rig.lab.clock().sleep(Duration::from_secs(1)).await;
        }
        let asked = rig.recorded_requests();
        let is_stop = |call: &&String| call.ends_with(&format!("/qemu/{vmid}/status/stop"));
        assert_eq!((status.as_str(), asked.iter().find(is_stop)), ("stopped", None));
        rig.converge(&rest).await;
        assert!(!rig.vms().await.contains_key(&vmid));
    }
    let last = by_volume(inventory(PVE_9_TALOS_12, &PLANES[..2], &["wk-1"]));
    rig.lab_state(&last).await.assert_complete(&PLANES[..2], &["wk-1"]);
    assert_eq!(rig.lab.etcd_clusters(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lost_control_plane_is_created_again_with_the_same_identity() {
    each(&[PVE_9_TALOS_12], a_lost_control_plane_is_created_again_with_the_same_identity_on).await;
}

async fn a_lost_control_plane_is_created_again_with_the_same_identity_on(versions: Versions) {
    let text = inventory(versions, &PLANES[..3], &["wk-1"]);
    let mut rig = started(versions, &text).await;
    // No consent is needed, because the disks are lost already.
    rig.scope = Scope::default();
    let (vmid, before) = vm_of(&rig, "cp-2").await;
    let old = member_id(&rig, "cp-2").await;
    rig.delete_vm(vmid).await;
    let ran = rig.converge(&text).await;
    assert!(has_step(&ran, "etcd/cp-2/leave") && !has_step(&ran, "etcd/bootstrap"));
    let (again, after) = vm_of(&rig, "cp-2").await;
    assert_eq!((again, identity(&after)), (vmid, identity(&before)));
    assert_ne!(member_id(&rig, "cp-2").await, old);
    rig.lab_state(&text).await.assert_complete(&PLANES[..3], &["wk-1"]);
    assert_eq!(rig.lab.etcd_clusters(), 1);
}

/// The VM of a control plane is lost, and the run is limited to configs.
#[tokio::test(flavor = "multi_thread")]
async fn a_run_for_configs_does_not_create_a_lost_control_plane_again() {
    let text = inventory(PVE_9_TALOS_12, &PLANES[..3], &["wk-1"]);
    let rig = started(PVE_9_TALOS_12, &text).await;
    let (vmid, _) = vm_of(&rig, "cp-2").await;
    let member = member_id(&rig, "cp-2").await;
    rig.delete_vm(vmid).await;
    let before = rig.vms().await;
    let ran = rig.up_within(&text, &Scope { only: Some(Part::Configs), ..all() }).await;
    let steps = ran.plan.steps.iter();
    assert_eq!(steps.filter(|step| step.node.as_deref() == Some("cp-2")).count(), 0);
    assert_eq!(rig.vms().await, before);
    assert_eq!(member_id(&rig, "cp-2").await, member);
    rig.converge(&text).await;
    rig.lab_state(&text).await.assert_complete(&PLANES[..3], &["wk-1"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn without_consent_a_node_stays_and_the_rest_is_done() {
    each(&[PVE_8_TALOS_11], without_consent_a_node_stays_and_the_rest_is_done_on).await;
}

async fn without_consent_a_node_stays_and_the_rest_is_done_on(versions: Versions) {
    let text = inventory(versions, &PLANES[..3], &["wk-1"]);
    let rig = started(versions, &text).await;
    // A control plane is missing in the inventory, and a worker is new.
    let changed = inventory(versions, &PLANES[..2], &["wk-1", "wk-2"]);
    let ran = rig.up_within(&changed, &Scope::default()).await;
    ran.assert_done();
    let left: Vec<(&Object, Option<Left>)> =
        ran.plan.open_changes().map(|change| (&change.object, change.left)).collect();
    let kept = Some(Left::NeedsConsent);
    let (vm, node) = (Object::Vm("cp-3".to_owned()), Object::Node("cp-3".to_owned()));
    assert_eq!(left, [(&vm, kept), (&node, kept)]);
    let lab_state = rig.lab_state(&inventory(versions, &PLANES[..3], &["wk-1", "wk-2"])).await;
    lab_state.assert_complete(&PLANES[..3], &["wk-1", "wk-2"]);
    // With consent for another node only, the control plane stays as well.
    let removal = RemovalConsent::Nodes(["wk-1".to_owned()].into());
    let ran = rig.up_within(&changed, &Scope { removal, ..Scope::default() }).await;
    assert!(ran.plan.steps.is_empty());
    rig.converge(&changed).await;
    rig.lab_state(&changed).await.assert_complete(&PLANES[..2], &["wk-1", "wk-2"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn nodes_are_replaced_on_request() {
    each(&[PVE_8_TALOS_12], nodes_are_replaced_on_request_on).await;
}

async fn nodes_are_replaced_on_request_on(versions: Versions) {
    let text = inventory(versions, &PLANES[..3], &["wk-1"]);
    let rig = started(versions, &text).await;
    for (name, address) in [("wk-1", "10.0.0.21"), ("cp-2", "10.0.0.12")] {
        let (vmid, before) = vm_of(&rig, name).await;
        let talos = rig.talos(address.parse().unwrap());
        let boot = talos.boot_id().await.unwrap();
        let ran = rig.up_within(&text, &replacing(name)).await;
        ran.assert_done();
        assert!(has_step(&ran, &format!("vm/{name}/destroy")));
        let (again, after) = vm_of(&rig, name).await;
        assert_eq!((again, identity(&after)), (vmid, identity(&before)));
        assert_ne!(talos.boot_id().await.unwrap(), boot);
        rig.assert_converged(&text).await;
    }
    rig.lab_state(&text).await.assert_complete(&PLANES[..3], &["wk-1"]);
    assert_eq!(rig.lab.etcd_clusters(), 1);
    // The only control plane of a cluster stays.
    let single = inventory(versions, &["cp-1"], &[]).replace("workers:\n", "");
    let rig = started(versions, &single).await;
    let before = rig.vms().await;
    let ran = rig.up_within(&single, &replacing("cp-1")).await;
    let left: Vec<Option<Left>> = ran.plan.open_changes().map(|change| change.left).collect();
    assert_eq!(left, [Some(Left::Impossible)]);
    assert_eq!(rig.vms().await, before);
}

/// The run is killed after the control plane left etcd, before its VM is stopped.
#[tokio::test(flavor = "multi_thread")]
async fn a_replacement_that_was_killed_after_the_leave_is_finished_with_consent() {
    let text = inventory(PVE_9_TALOS_12, &PLANES[..3], &["wk-1"]);
    let mut rig = started(PVE_9_TALOS_12, &text).await;
    let (vmid, before) = vm_of(&rig, "cp-2").await;
    let plan = rig.plan_within(&text, &replacing("cp-2")).await;
    let (killed, times) = once(&StepId::new("vm/cp-2/stop"), Moment::Begin, Cut::Crash);
    rig.carry_out(plan, &text, Some(killed)).await;
    assert_eq!(*times.lock().unwrap(), 1);
    let members = rig.talos("10.0.0.11".parse().unwrap()).etcd_members().await.unwrap();
    assert!(members.iter().all(|member| member.hostname != "cp-2"), "{members:?}");

    // Without consent, the run waits for nothing, changes nothing, and names the command that finishes the replacement.
    let vms = rig.vms().await;
    let ran = rig.up_within(&text, &Scope::default()).await;
    ran.assert_done();
    let open: Vec<&Change> = ran.plan.open_changes().collect();
    assert_eq!(open.len(), 1, "{open:?}");
    assert_eq!(open[0].object, Object::Vm("cp-2".to_owned()));
    assert_eq!(open[0].left, Some(Left::NeedsConsent));
    let note = open[0].note.clone().unwrap_or_default();
    assert!(note.contains("it left etcd") && note.contains("talmox node replace cp-2"), "{note}");
    assert_eq!(rig.vms().await, vms);

    // With consent, a plain `up` finishes it.
    rig.scope = all();
    rig.converge(&text).await;
    let (again, after) = vm_of(&rig, "cp-2").await;
    assert_eq!((again, identity(&after)), (vmid, identity(&before)));
    rig.lab_state(&text).await.assert_complete(&PLANES[..3], &["wk-1"]);
    assert_eq!(rig.lab.etcd_clusters(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_with_another_role_is_replaced() {
    each(&[PVE_9_TALOS_13], a_node_with_another_role_is_replaced_on).await;
}

async fn a_node_with_another_role_is_replaced_on(versions: Versions) {
    let text = inventory(versions, &PLANES[..3], &["wk-1"]);
    let rig = started(versions, &text).await;
    let entry = |name: &str, ip: &str| format!("  - {{name: {name}, ip: {ip}}}\n");
    // A control plane becomes a worker.
    let plane = entry("cp-3", "10.0.0.13");
    let moved = format!("{}{plane}", text.replace(&plane, ""));
    let ran = rig.converge(&moved).await;
    assert!(has_step(&ran, "etcd/cp-3/leave"));
    rig.lab_state(&moved).await.assert_complete(&PLANES[..2], &["cp-3", "wk-1"]);
    // The worker becomes a control plane again.
    rig.converge(&text).await;
    rig.lab_state(&text).await.assert_complete(&PLANES[..3], &["wk-1"]);
}
