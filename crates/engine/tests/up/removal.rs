//! Nodes that are removed, replaced, or created again after their VM was lost. The results are read from the lab.

use std::num::NonZeroUsize;

use talmox_plan::plan::{Left, Object};
use talmox_plan::planning::{RemovalConsent, Scope};

use super::inventory::HEAD;
use super::picture::VmPicture;
use super::rig::{Ran, Rig, Yard};

const PLANES: [&str; 5] = ["cp-1", "cp-2", "cp-3", "cp-4", "cp-5"];
const WORKERS: [&str; 4] = ["wk-1", "wk-2", "wk-3", "wk-4"];

/// An inventory with these nodes. The last digit of a name is the last digit of the address.
fn inventory(planes: &[&str], workers: &[&str]) -> String {
    let entries = |names: &[&str], tens: u8| -> String {
        let entry = |name: &&str| {
            let digit = name.chars().last().unwrap();
            format!("  - {{name: {name}, ip: 10.0.0.{tens}{digit}}}\n")
        };
        names.iter().map(entry).collect()
    };
    format!("{HEAD}\ncontrolplane:\n{}workers:\n{}", entries(planes, 1), entries(workers, 2))
}

fn all() -> Scope {
    Scope { removal: RemovalConsent::All, ..Scope::default() }
}

fn replacing(name: &str) -> Scope {
    Scope { replace: [name.to_owned()].into(), ..all() }
}

async fn started(yard: Yard, text: &str) -> Rig {
    let mut rig = Rig::of(yard);
    rig.scope = all();
    rig.up(text).await.assert_done();
    rig
}

/// The VM of a node, and its vmid.
async fn vm_of(rig: &Rig, name: &str) -> (u32, VmPicture) {
    let vms = rig.vms().await;
    let found =
        vms.into_iter().find(|(_, vm)| vm.config.get("name").is_some_and(|own| own == name));
    found.unwrap_or_else(|| panic!("{name} has no VM"))
}

/// The parts of a VM that identify its node.
fn identity(vm: &VmPicture) -> [&str; 3] {
    ["smbios1", "net0", "ipconfig0"].map(|key| vm.config[key].as_str())
}

async fn member_id(rig: &Rig, name: &str) -> u64 {
    let members = rig.talos("10.0.0.11".parse().unwrap()).etcd_members().await.unwrap();
    let mut own = members.iter().filter(|member| member.hostname == name);
    let found = own.next().unwrap_or_else(|| panic!("{name} is not a member")).id;
    assert!(own.next().is_none(), "{name} has two members");
    found
}

fn has_step(ran: &Ran, id: &str) -> bool {
    ran.plan.steps.iter().any(|step| step.id.as_str() == id)
}

#[tokio::test(flavor = "multi_thread")]
async fn control_planes_scale_from_three_to_five_and_back() {
    let (three, five) = (inventory(&PLANES[..3], &["wk-1"]), inventory(&PLANES, &["wk-1"]));
    let rig = started(Yard::default(), &three).await;
    rig.converge(&five).await;
    rig.picture(&five).await.assert_whole(&PLANES, &["wk-1"]);
    let ran = rig.converge(&three).await;
    assert!(has_step(&ran, "etcd/cp-4/leave") && has_step(&ran, "talos/cp-5/reset"));
    rig.picture(&three).await.assert_whole(&PLANES[..3], &["wk-1"]);
    assert_eq!(rig.lab.etcd_clusters(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn control_planes_scale_from_one_to_three_and_back() {
    let (one, three) = (inventory(&PLANES[..1], &["wk-1"]), inventory(&PLANES[..3], &["wk-1"]));
    let rig = started(Yard { release: "8.4", ..Yard::default() }, &one).await;
    rig.converge(&three).await;
    rig.picture(&three).await.assert_whole(&PLANES[..3], &["wk-1"]);
    rig.converge(&one).await;
    rig.picture(&one).await.assert_whole(&PLANES[..1], &["wk-1"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn workers_scale_from_two_to_four_and_back() {
    let (two, four) = (inventory(&["cp-1"], &WORKERS[..2]), inventory(&["cp-1"], &WORKERS));
    let mut rig = started(Yard::default(), &two).await;
    rig.scope.max_unavailable = NonZeroUsize::new(2).unwrap();
    rig.converge(&four).await;
    rig.picture(&four).await.assert_whole(&["cp-1"], &WORKERS);
    let ran = rig.converge(&two).await;
    assert!(has_step(&ran, "node/wk-3/drain") && has_step(&ran, "node/wk-4/delete"));
    rig.picture(&two).await.assert_whole(&["cp-1"], &WORKERS[..2]);
    let nodes = rig.kube(&two).nodes().await.unwrap();
    let names: Vec<&str> = nodes.iter().map(|node| node.name.as_str()).collect();
    assert_eq!(names, ["cp-1", "wk-1", "wk-2"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lost_control_plane_is_created_again_with_the_same_identity() {
    let text = inventory(&PLANES[..3], &["wk-1"]);
    let mut rig = started(Yard::default(), &text).await;
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
    rig.picture(&text).await.assert_whole(&PLANES[..3], &["wk-1"]);
    assert_eq!(rig.lab.etcd_clusters(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn without_consent_a_node_stays_and_the_rest_is_done() {
    let text = inventory(&PLANES[..3], &["wk-1"]);
    let rig = started(Yard::default(), &text).await;
    // A control plane is missing in the inventory, and a worker is new.
    let changed = inventory(&PLANES[..2], &["wk-1", "wk-2"]);
    let ran = rig.up_within(&changed, &Scope::default()).await;
    ran.assert_done();
    let left: Vec<(&Object, Option<Left>)> =
        ran.plan.open_changes().map(|change| (&change.object, change.left)).collect();
    let kept = Some(Left::NeedsConsent);
    let (vm, node) = (Object::Vm("cp-3".to_owned()), Object::Node("cp-3".to_owned()));
    assert_eq!(left, [(&vm, kept), (&node, kept)]);
    let picture = rig.picture(&inventory(&PLANES[..3], &["wk-1", "wk-2"])).await;
    picture.assert_whole(&PLANES[..3], &["wk-1", "wk-2"]);
    // With consent for another node only, the control plane stays as well.
    let removal = RemovalConsent::Nodes(["wk-1".to_owned()].into());
    let ran = rig.up_within(&changed, &Scope { removal, ..Scope::default() }).await;
    assert!(ran.plan.steps.is_empty());
    rig.converge(&changed).await;
    rig.picture(&changed).await.assert_whole(&PLANES[..2], &["wk-1", "wk-2"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn nodes_are_replaced_on_request() {
    let text = inventory(&PLANES[..3], &["wk-1"]);
    let rig = started(Yard::default(), &text).await;
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
    rig.picture(&text).await.assert_whole(&PLANES[..3], &["wk-1"]);
    assert_eq!(rig.lab.etcd_clusters(), 1);
    // The only control plane of a cluster stays.
    let single = inventory(&["cp-1"], &[]).replace("workers:\n", "");
    let rig = started(Yard::default(), &single).await;
    let before = rig.vms().await;
    let ran = rig.up_within(&single, &replacing("cp-1")).await;
    let left: Vec<Option<Left>> = ran.plan.open_changes().map(|change| change.left).collect();
    assert_eq!(left, [Some(Left::Impossible)]);
    assert_eq!(rig.vms().await, before);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_with_another_role_is_replaced() {
    let text = inventory(&PLANES[..3], &["wk-1"]);
    let rig = started(Yard::default(), &text).await;
    let entry = |name: &str, ip: &str| format!("  - {{name: {name}, ip: {ip}}}\n");
    // A control plane becomes a worker.
    let plane = entry("cp-3", "10.0.0.13");
    let moved = format!("{}{plane}", text.replace(&plane, ""));
    let ran = rig.converge(&moved).await;
    assert!(has_step(&ran, "etcd/cp-3/leave"));
    rig.picture(&moved).await.assert_whole(&PLANES[..2], &["cp-3", "wk-1"]);
    // The worker becomes a control plane again.
    rig.converge(&text).await;
    rig.picture(&text).await.assert_whole(&PLANES[..3], &["wk-1"]);
}
