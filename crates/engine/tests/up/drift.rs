//! Changes of a cluster that were not made by talmox.

use talmox_plan::desired::Contact;
use talmox_plan::observed::TalosSeen;
use talmox_plan::plan::{Action, Class, show};
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
    rig.stop_vm_now(303).await;
    let plan = rig.plan(&text).await;
    let shown = show::text(&plan);
    assert!(shown.contains("~ vm wk-1  (start)\n    status  stopped → running"), "{shown}");
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
    let observed = rig.observe(&desired).await.unwrap();
    let TalosSeen::OwnNode(found) = &observed.nodes["wk-1"] else { panic!("{:?}", observed.nodes) };
    assert_eq!(found.address, Some("10.0.0.21".parse().unwrap()));
    let plan = rig.plan(&text).await;
    let shown = show::text(&plan);
    assert!(shown.contains("10.0.0.21/24 → 10.0.0.29/24"), "{shown}");
    let contacts = plan.steps.iter().find_map(|step| match &step.action {
        Action::ChangeConfig(change) => Some((change.node.contact, change.contact)),
        _ => None,
    });
    let at = |address: &str| Contact::At(address.parse().unwrap());
    assert_eq!(contacts, Some((at("10.0.0.21"), at("10.0.0.29"))), "{shown}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_vm_without_its_marker_is_reported_and_not_changed() {
    let rig = Rig::start();
    let text = pair();
    rig.up(&text).await.assert_done();
    change(&rig, 303, VmOptions::new().description("my own notes"), &[]).await;
    let before = rig.vms().await[&303].clone();
    let desired = rig.desired(&text);
    let observed = rig.observe(&desired).await.unwrap();
    let found = foreign_vms(&desired, &observed.pve);
    assert!(found["wk-1"].contains("VM 303 (wk-1) on pve1"), "{found:?}");
    // The VM has the UUID of wk-1, which no other VM has. So nothing of the cluster is destroyed until its owner is known.
    let end = rig.destroy_plan(&text, DestroyOptions::default()).await;
    let shown = show::text(&end);
    assert!(
        shown.contains("error[vm-unproven]: wk-1: VM 303 (wk-1) on pve1 has the vmid, name or UUID of this node"),
        "{shown}"
    );
    assert_eq!(rig.vms().await[&303], before);
}

#[tokio::test(flavor = "multi_thread")]
async fn disks_and_cards_added_outside_talmox_are_reported() {
    let rig = Rig::start();
    let text = pair();
    rig.up(&text).await.assert_done();
    let more = VmOptions::new().set("scsi5", "local-lvm:3").set("net1", "virtio,bridge=vmbr0");
    change(&rig, 303, more, &[]).await;
    let plan = rig.plan(&text).await;
    let shown = show::text(&plan);
    assert!(shown.contains("- disk wk-1/scsi5  (destroy, not done: impossible)"), "{shown}");
    assert!(shown.contains("size  3 GiB on local-lvm"), "{shown}");
    assert!(shown.contains("~ vm wk-1  (live)\n    net1"), "{shown}");
    change(&rig, 303, VmOptions::new(), &["scsi5", "net1"]).await;
    let plan = rig.plan(&text).await;
    assert!(plan.is_empty(), "{}", show::text(&plan));
}
