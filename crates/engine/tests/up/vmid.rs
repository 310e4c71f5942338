//! vmids of nodes without `vmid:`, and the VMs that have these vmids. The results are read from the lab.

use std::collections::BTreeMap;

use talmox_plan::plan::{FindingCode, show};
use talmox_pve::api::pool::{self, Members};
use talmox_pve::id::VmId;

use super::inventory::{HEAD, pair};
use super::rig::{ADMIN, Rig};

/// An inventory with one control plane and these entries of workers.
fn inventory(workers: &[&str]) -> String {
    let entries: String = workers.iter().map(|entry| format!("  - {entry}\n")).collect();
    format!("{HEAD}\ncontrolplane:\n  - {{name: cp-1, ip: 10.0.0.11}}\nworkers:\n{entries}")
}

impl Rig {
    /// The vmids of all VMs of the lab, by their names.
    async fn vmids_by_name(&self) -> BTreeMap<String, u32> {
        let vms = self.vms().await;
        vms.into_iter().map(|(vmid, vm)| (vm.config["name"].clone(), vmid)).collect()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn nodes_with_the_same_role_and_number_keep_their_vmids_after_destroy_and_up() {
    let (one, other) = ("{name: wk-1, ip: 10.0.0.21}", "{name: gpu-1, ip: 10.0.0.22}");
    let rig = Rig::start();
    rig.up(&inventory(&[one, other])).await.assert_done();
    let first = rig.vmids_by_name().await;
    assert_eq!((first["cp-1"], first.len()), (300, 4));
    rig.destroy(&inventory(&[one, other])).await.assert_done();
    // The program deletes the client files, which show that the cluster was up.
    rig.files.lock().unwrap().clear();
    rig.up(&inventory(&[other, one])).await.assert_done();
    assert_eq!(rig.vmids_by_name().await, first);
    rig.watcher.assert_none();
}

/// The VM of a node has another vmid than talmox would derive, as VMs of earlier releases have. A user stopped it and removed
/// it from its pool, so the token cannot see it.
#[tokio::test(flavor = "multi_thread")]
async fn a_hidden_vm_with_another_vmid_is_not_created_a_second_time() {
    let rig = Rig::start();
    rig.up(&pair().replace("ip: 10.0.0.21", "ip: 10.0.0.21, vmid: 301")).await.assert_done();
    assert_eq!(rig.vmids_by_name().await["wk-1"], 301);
    rig.stop_vm(301).await;
    let (pool, vmid) = ("talos".parse().unwrap(), VmId::new(301).unwrap());
    let members = Members { guests: vec![vmid], storages: vec![] };
    rig.client(ADMIN).send(&pool::remove(&pool, &members)).await.unwrap();
    let before = rig.vms().await;
    let plan = rig.plan(&pair()).await;
    let shown = show::text(&plan);
    let hidden = plan.errors().find(|error| error.code == FindingCode::VmHidden);
    let hidden = hidden.unwrap_or_else(|| panic!("{shown}"));
    assert_eq!(hidden.subject, "wk-1", "{shown}");
    assert!(hidden.message.contains("VM 301 exists"), "{shown}");
    assert!(plan.steps.iter().all(|step| step.node.as_deref() != Some("wk-1")), "{shown}");
    assert_eq!(rig.vms().await, before);
    // In its pool it is the VM of the node again, and keeps its vmid.
    rig.client(ADMIN).send(&pool::add(&pool, &members, false)).await.unwrap();
    rig.up(&pair()).await.assert_done();
    let mut names = rig.vmids_by_name().await;
    names.remove("db");
    assert_eq!(names, BTreeMap::from([("cp-1".to_owned(), 300), ("wk-1".to_owned(), 301)]));
    rig.watcher.assert_none();
}
