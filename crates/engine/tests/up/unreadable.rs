//! A VM that cannot be read is not absent. So talmox does not create a VM or bootstrap etcd if that could duplicate it.

use talmox_lab::pve::Action as FaultAction;
use talmox_plan::plan::{Action, Plan, Step, show};

use super::inventory::{home, pair};
use super::rig::Rig;

/// The inventory with an additional setting for each control plane.
fn control_planes_with(text: &str, settings: [&str; 3]) -> String {
    let addresses = ["10.0.0.11", "10.0.0.12", "10.0.0.13"];
    addresses.iter().zip(settings).fold(text.to_owned(), |text, (address, setting)| {
        text.replace(&format!("ip: {address}"), &format!("ip: {address}, {setting}"))
    })
}

/// Checks that no VM is created, that etcd is not bootstrapped, and that each of these nodes has an error that names a VM.
#[track_caller]
fn assert_nothing_is_made(plan: &Plan, nodes: &[&str], vm: &str) {
    let shown = show::text(plan);
    let makes = |step: &&Step| {
        matches!(step.action, Action::CreateVm(_) | Action::CloneVm(_) | Action::BootstrapEtcd(_))
    };
    let made: Vec<&str> = plan.steps.iter().filter(makes).map(|step| step.id.as_str()).collect();
    assert!(made.is_empty(), "{made:?}\n{shown}");
    assert!(!shown.contains("bootstrapped on"), "{shown}");
    for node in nodes {
        let is_named = plan.errors().any(|error| {
            error.subject == *node && error.message.contains(vm) && error.hint.is_some()
        });
        assert!(is_named, "{node}\n{shown}");
    }
    let hints: Vec<&str> = plan.errors().filter_map(|error| error.hint.as_deref()).collect();
    assert!(hints.iter().all(|hint| !hint.contains("qm destroy")), "{hints:?}");
}

/// The control planes are on a host that is down. The inventory is edited: other vmids, on the host that is up.
#[tokio::test(flavor = "multi_thread")]
async fn control_planes_on_a_host_that_is_down_are_not_created_a_second_time() {
    let rig = Rig::start();
    rig.up(&control_planes_with(&home(), ["host: pve2"; 3])).await.assert_done();
    let before = rig.guests().await.len();
    rig.lose("pve2").await;
    let moved = control_planes_with(&home(), ["vmid: 310", "vmid: 311", "vmid: 312"]);
    let nodes = ["cp-1", "cp-2", "cp-3"];
    let plan = rig.plan(&moved).await;
    assert_nothing_is_made(&plan, &nodes, "on pve2, which cannot be read");
    let hint = plan.errors().find_map(|error| error.hint.clone()).unwrap();
    assert!(hint.contains("bring pve2 up"), "{hint}");
    // Proxmox keeps the configs of the VMs of a host that was removed from its cluster.
    assert!(hint.contains("`pvecm delnode pve2` can leave its VMs listed"), "{hint}");
    // A fresh clone has no client files that show that the cluster was up.
    rig.files.lock().unwrap().clear();
    assert_nothing_is_made(&rig.plan(&moved).await, &nodes, "on pve2, which cannot be read");
    assert_eq!(rig.guests().await.len(), before);
}

/// The new inventory has nothing in common with the former cluster: no VIP, other names, other addresses. Only Proxmox lists
/// the former VMs, and cannot read their configs.
#[tokio::test(flavor = "multi_thread")]
async fn renamed_control_planes_do_not_become_a_second_cluster() {
    let rig = Rig::start();
    let text = home().replace(", vip: 10.0.0.20", "");
    let text = format!("{text}endpoint: https://10.0.0.11:6443\n");
    rig.up(&text).await.assert_done();
    let before = rig.guests().await.len();
    let renamed = (1..4).fold(text.clone(), |text, number| {
        text.replace(&format!("cp-{number}"), &format!("master-{number}"))
            .replace(&format!("10.0.0.1{number}"), &format!("10.0.0.3{number}"))
    });
    let numbered = (1..4).fold(renamed.clone(), |text, number| {
        let ip = format!("ip: 10.0.0.3{number}");
        text.replace(&ip, &format!("{ip}, vmid: 31{number}"))
    });
    for vmid in [300, 301, 302] {
        let path = format!("/nodes/{{node}}/qemu/{vmid}/pending");
        let reject = FaultAction::Reject { status: 500, message: "no such file".to_owned() };
        rig.inject_fault("GET", &path, u64::MAX, reject);
    }
    rig.files.lock().unwrap().clear();
    let nodes = ["master-1", "master-2", "master-3"];
    for text in [&renamed, &numbered] {
        assert_nothing_is_made(&rig.plan(text).await, &nodes, "it may be VM 300 on pve1");
    }
    // With the former names in the inventory, talmox waits for the former VMs.
    assert_nothing_is_made(&rig.plan(&text).await, &["cp-1", "cp-2", "cp-3"], "cannot be read");
    assert_eq!(rig.guests().await.len(), before);
    rig.lab.faults().clear();
    let plan = rig.plan(&text).await;
    assert_eq!(plan.errors().count(), 0, "{}", show::text(&plan));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_on_a_host_that_is_down_is_not_created_a_second_time() {
    let rig = Rig::start();
    rig.up(&pair().replace("ip: 10.0.0.21", "ip: 10.0.0.21, host: pve2")).await.assert_done();
    rig.lose("pve2").await;
    for setting in ["", ", vmid: 350", ", vmid: 350, host: pve1"] {
        let text = pair().replace("ip: 10.0.0.21", &format!("ip: 10.0.0.21{setting}"));
        let plan = rig.plan(&text).await;
        assert_nothing_is_made(&plan, &["wk-1"], "it may be VM 303 on pve2");
    }
    // A node that cannot be a duplicate is created, because it has another name and Kubernetes does not list it.
    let more = format!("{}  - {{name: wk-9, ip: 10.0.0.29}}\n", pair());
    let plan = rig.plan(&more).await;
    let shown = show::text(&plan);
    assert!(plan.errors().all(|error| error.subject == "wk-1"), "{shown}");
    assert!(plan.steps.iter().any(|step| step.id.as_str() == "vm/wk-9/create"), "{shown}");
}
