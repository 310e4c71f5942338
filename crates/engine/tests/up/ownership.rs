//! What is not provably ours is never touched.

use talmox_engine::plan::show;

use super::inventory::{another_bundle, home, pair};
use super::rig::{Rig, Yard};

/// A yard in which somebody has this VM.
fn with_vm(vmid: u32, name: &str) -> Rig {
    let vm = format!(
        "vms:\n  - vmid: {vmid}\n    node: pve1\n    status: running\n    config: {{name: {name}, \
         cores: 1, memory: 512, description: precious, tags: talmox;home, \
         smbios1: uuid=aaaaaaaa-0000-4000-8000-000000000300}}\n"
    );
    let pool = "{poolid: talos, comment: the cluster}";
    let member = format!("{{poolid: talos, comment: the cluster, vms: [{vmid}]}}");
    Rig::of(Yard { with: vec![("vms:\n", vm), (pool, member)], ..Yard::default() })
}

#[tokio::test(flavor = "multi_thread")]
async fn a_number_that_somebody_else_has_is_passed_over() {
    let rig = with_vm(300, "precious");
    let before = rig.vms().await[&300].clone();
    rig.up(&pair()).await.assert_done();
    let after = rig.vms().await;
    assert_eq!(after.keys().copied().collect::<Vec<_>>(), [100, 300, 301, 302]);
    assert_eq!(after[&301].config["name"], "cp-1");
    rig.destroy(&pair()).await.assert_done();
    let left = rig.vms().await;
    assert_eq!(left.keys().copied().collect::<Vec<_>>(), [100, 300]);
    assert_eq!(left[&300], before);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_number_that_was_asked_for_and_is_taken_is_an_error() {
    let rig = with_vm(300, "precious");
    let before = rig.vms().await;
    let text = pair().replace("ip: 10.0.0.11", "ip: 10.0.0.11, vmid: 300");
    let plan = rig.plan(&text).await;
    let shown = show::text(&plan);
    assert!(plan.errors().count() > 0, "{shown}");
    assert!(shown.contains("vmid 300 is taken by a VM"), "{shown}");
    assert!(shown.contains("that is not ours"), "{shown}");
    assert!(rig.destroy(&text).await.plan.steps.is_empty());
    assert_eq!(rig.vms().await, before);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_vm_of_the_same_name_is_left_alone() {
    let rig = with_vm(250, "cp-1");
    let before = rig.vms().await[&250].clone();
    rig.up(&pair()).await.assert_done();
    let after = rig.vms().await;
    assert_eq!(after.keys().copied().collect::<Vec<_>>(), [100, 250, 300, 301]);
    rig.destroy(&pair()).await.assert_done();
    let left = rig.vms().await;
    assert_eq!(left.keys().copied().collect::<Vec<_>>(), [100, 250]);
    assert_eq!(left[&250], before);
}

#[tokio::test(flavor = "multi_thread")]
async fn two_clusters_of_one_name_never_meet() {
    let mut rig = Rig::start();
    let first = home();
    rig.up(&first).await.assert_done();
    let before = rig.picture(&first).await;
    // The same names of cluster and nodes, at other addresses, with other secrets.
    let ours = std::mem::replace(&mut rig.bundle, another_bundle());
    let second = pair()
        .replace("10.0.0.11", "10.0.0.111")
        .replace("10.0.0.21", "10.0.0.121")
        .replace("10.0.0.20", "10.0.0.120");
    rig.up(&second).await.assert_done();
    let both = rig.vms().await;
    assert_eq!(both.len(), before.vms.len() + 2);
    let again = rig.plan(&second).await;
    assert!(again.is_empty(), "{}", show::text(&again));
    rig.destroy(&second).await.assert_done();
    rig.bundle = ours;
    assert_eq!(rig.picture(&first).await, before);
}
