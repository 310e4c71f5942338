//! What others did to a cluster since it was made.

use talmox_plan::observed::TalosSeen;
use talmox_plan::plan::{Class, show};
use talmox_plan::planning::{DestroyOptions, foreign_vms};
use talmox_pve::api::qemu::{self, Vm};
use talmox_pve::config::{VmChange, VmOptions};
use talmox_pve::id::VmId;

use super::inventory::pair;
use super::rig::{ADMIN, Rig};

async fn change(rig: &Rig, vmid: u32, set: VmOptions, delete: &[&str]) {
    let vm = Vm::new(&"pve1".parse().unwrap(), VmId::new(vmid).unwrap());
    let delete = delete.iter().map(|key| (*key).to_owned()).collect();
    let change = VmChange { set, delete, ..VmChange::default() };
    rig.client(ADMIN).send(&qemu::set_config(&vm, &change)).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_vm_that_was_just_stopped_is_started() {
    let rig = Rig::start();
    let text = pair();
    rig.up(&text).await.assert_done();
    rig.stop_vm_now(301).await;
    let plan = rig.plan(&text).await;
    let shown = show::text(&plan);
    assert!(shown.contains("~ vm wk-1  (live)\n    status  stopped → running"), "{shown}");
    assert!(plan.changes.iter().all(|change| change.class == Class::Live), "{shown}");
    rig.up(&text).await.assert_done();
    let again = rig.plan(&text).await;
    assert!(again.is_empty(), "{}", show::text(&again));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_with_another_address_is_found_at_the_old_one() {
    let rig = Rig::start();
    rig.up(&pair()).await.assert_done();
    let text = pair().replace("10.0.0.21", "10.0.0.29");
    let desired = rig.desired(&text);
    let world = rig.look(&desired).await.unwrap();
    let TalosSeen::OwnNode(found) = &world.nodes["wk-1"] else { panic!("{:?}", world.nodes) };
    assert_eq!(found.address, Some("10.0.0.21".parse().unwrap()));
    let plan = rig.plan(&text).await;
    let shown = show::text(&plan);
    assert!(plan.steps.is_empty() && plan.open_changes().count() == 2, "{shown}");
    assert!(shown.contains("~ node wk-1  (drain, not yet)"), "{shown}");
    assert!(shown.contains("10.0.0.21/24 → 10.0.0.29/24"), "{shown}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_vm_without_its_marker_is_told_about_and_left_alone() {
    let rig = Rig::start();
    let text = pair();
    rig.up(&text).await.assert_done();
    change(&rig, 301, VmOptions::new().description("my own notes"), &[]).await;
    let before = rig.vms().await[&301].clone();
    let desired = rig.desired(&text);
    let world = rig.look(&desired).await.unwrap();
    let told = foreign_vms(&desired, &world.pve);
    assert!(told["wk-1"].contains("VM 301 (wk-1) on pve1"), "{told:?}");
    // It has the UUID of wk-1, which no other VM has: nothing of the cluster is destroyed until its owner is known.
    let end = rig.end(&text, DestroyOptions::default()).await;
    let shown = show::text(&end);
    assert!(
        shown.contains("error[vm-unproven]: wk-1: VM 301 (wk-1) on pve1 is in its place"),
        "{shown}"
    );
    assert_eq!(rig.vms().await[&301], before);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_disk_and_a_card_that_somebody_added_are_seen() {
    let rig = Rig::start();
    let text = pair();
    rig.up(&text).await.assert_done();
    let more = VmOptions::new().set("scsi5", "local-lvm:3").set("net1", "virtio,bridge=vmbr0");
    change(&rig, 301, more, &[]).await;
    let plan = rig.plan(&text).await;
    let shown = show::text(&plan);
    assert!(shown.contains("- disk wk-1/scsi5  (destroy, not yet)"), "{shown}");
    assert!(shown.contains("size  3 GiB on local-lvm"), "{shown}");
    assert!(shown.contains("~ vm wk-1  (live, not yet)\n    net1"), "{shown}");
    change(&rig, 301, VmOptions::new(), &["scsi5", "net1"]).await;
    let plan = rig.plan(&text).await;
    assert!(plan.is_empty(), "{}", show::text(&plan));
}
