//! VMs whose notes a user replaced. The marker is restored only if all other properties of the VM prove whose VM it is, and the
//! other nodes are changed in any case.

use talmox_plan::plan::{Class, FindingCode, Left, Plan, show};
use talmox_pve::api::qemu::{self, Vm};
use talmox_pve::config::{VmChange, VmOptions};
use talmox_pve::id::VmId;

use super::inventory::HEAD;
use super::rig::{ADMIN, Rig};

const WK_1: u32 = 301;
const WK_2: u32 = 302;

/// One control plane and two workers, the second with this memory.
fn inventory(memory: u32) -> String {
    format!(
        "{HEAD}
controlplane:
  - {{name: cp-1, ip: 10.0.0.11, vmid: 300}}
workers:
  - {{name: wk-1, ip: 10.0.0.21, vmid: {WK_1}}}
  - {{name: wk-2, ip: 10.0.0.22, vmid: {WK_2}, memory: {memory}}}
"
    )
}

async fn edit(rig: &Rig, set: VmOptions) {
    let vm = Vm::new(&"pve1".parse().unwrap(), VmId::new(WK_1).unwrap());
    let change = VmChange { set, ..VmChange::default() };
    rig.client(ADMIN).send(&qemu::set_config(&vm, &change)).await.unwrap();
}

/// The class of the change of the notes of wk-1, and why it is left.
fn change_of_notes(plan: &Plan) -> (Class, Option<Left>) {
    let mut changes = plan.changes.iter().filter(|change| change.object.to_string() == "vm wk-1");
    let change = changes.next().unwrap_or_else(|| panic!("{}", show::text(plan)));
    assert_eq!(change.fields[0].path, "notes");
    (change.class, change.left)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lost_marker_is_restored_and_the_notes_are_kept() {
    let rig = Rig::start();
    rig.converge(&inventory(4096)).await;
    edit(&rig, VmOptions::new().description("mine now")).await;
    let before = rig.vms().await;

    let changed = inventory(6144);
    let plan = rig.plan(&changed).await;
    assert_eq!(change_of_notes(&plan), (Class::Live, None));
    let is_warned =
        |code: FindingCode, subject: &str| code == FindingCode::VmUnproven && subject == "wk-1";
    assert!(plan.findings.iter().any(|one| is_warned(one.code, &one.subject)));
    rig.converge(&changed).await;

    let after = rig.vms().await;
    let notes = &after[&WK_1].config["description"];
    assert!(notes.contains("\ntalmox/1 cluster=") && notes.contains("mine now"), "{notes}");
    assert_eq!(after[&WK_2].config["memory"], "6144");
    assert_eq!(after.keys().collect::<Vec<_>>(), before.keys().collect::<Vec<_>>());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_vm_that_is_not_proven_is_left_and_the_other_nodes_are_changed() {
    let rig = Rig::start();
    rig.converge(&inventory(4096)).await;
    edit(&rig, VmOptions::new().description("mine now").set("tags", "mine")).await;
    let before = rig.vms().await;

    let changed = inventory(6144);
    let plan = rig.plan(&changed).await;
    assert_eq!(change_of_notes(&plan), (Class::Live, Some(Left::Blocked)));
    assert_eq!(plan.blocking_errors().count(), 0, "{}", show::text(&plan));
    let errors: Vec<&str> = plan.node_errors().map(|error| error.subject.as_str()).collect();
    assert_eq!(errors, ["wk-1"]);
    assert!(plan.is_partial());
    rig.carry_out(plan, &changed, None).await.assert_done();

    let after = rig.vms().await;
    assert_eq!(after[&WK_1], before[&WK_1]);
    assert_eq!(after[&WK_2].config["memory"], "6144");
    assert_eq!(after.len(), before.len());
    rig.watcher.assert_none();
}
