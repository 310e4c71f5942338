//! VMs whose UUID the inventory records, as for adopted VMs. The notes alone do not make a VM an owned VM.

use talmox_plan::ownership::{Adoption, ClusterMark, Marker, Stage};
use talmox_plan::plan::{FindingCode, show};
use talmox_plan::planning::{RemovalConsent, Scope};
use talmox_pve::api::pool::{self, Members};
use talmox_pve::api::qemu::{self, Vm};
use talmox_pve::config::{VmChange, VmOptions};
use talmox_pve::id::VmId;
use talmox_pve::property::Tags;

use super::inventory::{HEAD, bundle, pair};
use super::rig::{ADMIN, Rig};

const UUID: &str = "aaaaaaaa-0000-4000-8000-000000000303";

/// UUID of the VM 100 of the lab, which is a foreign VM.
const FOREIGN_UUID: &str = "aaaaaaaa-0000-4000-8000-000000000100";

fn consent() -> Scope {
    Scope { removal: RemovalConsent::All, ..Scope::default() }
}

/// The inventory `pair` without its worker.
fn without_worker() -> String {
    format!("{HEAD}\ncontrolplane:\n  - {{name: cp-1, ip: 10.0.0.11}}\n")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_replaced_adopted_node_stays_an_owned_vm_after_its_removal_from_the_inventory() {
    let text = pair().replace("ip: 10.0.0.21", &format!("ip: 10.0.0.21, uuid: {UUID}"));
    let mut rig = Rig::start();
    rig.scope = consent();
    rig.up(&text).await.assert_done();
    let replace = Scope { replace: ["wk-1".to_owned()].into(), ..consent() };
    rig.up_within(&text, &replace).await.assert_done();
    rig.assert_converged(&text).await;
    let vm = rig.vms().await[&303].clone();
    assert!(vm.config["smbios1"].contains(UUID), "{vm:?}");
    let record = Adoption::of(&rig.bundle.cluster.id, "wk-1", UUID).to_string();
    assert!(vm.config["description"].contains(&record), "{vm:?}");
    rig.converge(&without_worker()).await;
    assert_eq!(rig.vms().await.keys().copied().collect::<Vec<_>>(), [100, 300]);
}

/// A user wrote the marker of a node and the UUID of a foreign VM into the notes of that VM. The node is in the inventory, or
/// was removed from it.
#[tokio::test(flavor = "multi_thread")]
async fn a_uuid_in_the_notes_alone_does_not_make_a_vm_owned() {
    let mut rig = Rig::start();
    rig.scope = consent();
    rig.up(&pair()).await.assert_done();
    let (pool, vmid) = ("talos".parse().unwrap(), VmId::new(100).unwrap());
    let members = Members { guests: vec![vmid], storages: vec![] };
    rig.client(ADMIN).send(&pool::add(&pool, &members, false)).await.unwrap();
    for node in ["wk-1", "wk-9"] {
        let marker = Marker {
            cluster: ClusterMark::of(&bundle().cluster.id),
            node: node.to_owned(),
            stage: Stage::Made,
            data: None,
            are_tags_rejected: false,
            first_role: None,
            own_tags: Tags::default(),
            notes: None,
        };
        let other = Adoption::of("another cluster", node, FOREIGN_UUID);
        for record in [format!("uuid={FOREIGN_UUID}"), other.to_string()] {
            let set = VmOptions::new().description(&format!("{marker} {record}"));
            let change = VmChange { set: set.set("tags", "home;talmox"), ..VmChange::default() };
            let vm = Vm::new(&"pve1".parse().unwrap(), vmid);
            rig.client(ADMIN).send(&qemu::set_config(&vm, &change)).await.unwrap();
            let before = rig.vms().await[&100].clone();
            let ran = rig.up_within(&pair(), &consent()).await;
            assert!(ran.plan.steps.is_empty(), "{node}: {}", show::text(&ran.plan));
            assert_eq!(rig.vms().await[&100], before, "{node}: {record}");
        }
    }
    let before = rig.vms().await[&100].clone();
    rig.destroy(&pair()).await.assert_done();
    let left = rig.vms().await;
    assert_eq!(left.keys().copied().collect::<Vec<_>>(), [100]);
    assert_eq!(left[&100], before);
    rig.watcher.assert_none();
}

/// The VM is stopped, so no machine answers at the address of the node, and its vmid is the vmid of a foreign VM for the plan.
#[tokio::test(flavor = "multi_thread")]
async fn an_adopted_vm_is_not_created_again_when_its_uuid_leaves_the_inventory() {
    let text = pair().replace("ip: 10.0.0.21", &format!("ip: 10.0.0.21, uuid: {UUID}"));
    let rig = Rig::start();
    rig.up(&text).await.assert_done();
    rig.stop_vm(303).await;
    let before = rig.vms().await;
    let plan = rig.plan(&pair()).await;
    let shown = show::text(&plan);
    let unproven = plan.errors().find(|error| error.code == FindingCode::VmUnproven);
    let unproven = unproven.unwrap_or_else(|| panic!("{shown}"));
    assert_eq!(unproven.subject, "wk-1", "{shown}");
    let hint = unproven.hint.clone().unwrap_or_default();
    assert!(hint.contains(&format!("add `uuid: {UUID}` to the node")), "{shown}");
    assert!(plan.steps.iter().all(|step| step.node.as_deref() != Some("wk-1")), "{shown}");
    assert_eq!(rig.vms().await, before);
    rig.up(&text).await.assert_done();
    assert_eq!(rig.vms().await.keys().copied().collect::<Vec<_>>(), [100, 300, 303]);
}
