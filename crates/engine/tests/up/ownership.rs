//! talmox never changes a VM that is not provably an owned VM.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use talmox_engine::step::{Cut, CutHook, Moment};
use talmox_lab::pve::Action as FaultAction;
use talmox_plan::ownership::{ClusterMark, Marker, SmbiosUuid, Stage};
use talmox_plan::plan::{self, show};
use talmox_plan::planning::{self, DestroyOptions, foreign_vms, locations};
use talmox_pve::api::cluster::{self, Guest};
use talmox_pve::api::pool::{self, Members};
use talmox_pve::api::qemu::{self, CloneVm, Vm};
use talmox_pve::config::{VmChange, VmOptions};
use talmox_pve::id::VmId;
use talmox_pve::property::Tags;

use super::inventory::{another_bundle, bundle, home, pair};
use super::rig::{ADMIN, LabOptions, Rig};

const FOREIGN_UUID: &str = "aaaaaaaa-0000-4000-8000-000000000300";

/// A lab with this foreign VM.
fn with_vm(vmid: u32, name: &str) -> Rig {
    with_tagged_vm(vmid, name, "precious", FOREIGN_UUID, "mine")
}

/// A lab with a foreign VM that has notes, a UUID and tags like an owned VM.
fn with_marked_vm(vmid: u32, name: &str, description: &str, uuid: &str) -> Rig {
    with_tagged_vm(vmid, name, description, uuid, "talmox;home")
}

fn with_tagged_vm(vmid: u32, name: &str, description: &str, uuid: &str, tags: &str) -> Rig {
    let vm = format!(
        "vms:\n  - vmid: {vmid}\n    node: pve1\n    status: running\n    config: {{name: {name}, \
         cores: 1, memory: 512, description: {description:?}, tags: {tags}, \
         smbios1: uuid={uuid}}}\n"
    );
    let pool = "{poolid: talos, comment: the cluster}";
    let member = format!("{{poolid: talos, comment: the cluster, vms: [{vmid}]}}");
    Rig::of(LabOptions { with: vec![("vms:\n", vm), (pool, member)], ..LabOptions::default() })
}

/// The vmid that a node of the cluster gets if the vmid of its number is in use. It is in the second half of the range, and is
/// derived from the UUID of the node.
fn derived_vmid(node: &str) -> u32 {
    let uuid = SmbiosUuid::of(&bundle().cluster.id, node).to_string().replace('-', "");
    let low = u64::from_str_radix(&uuid[16..], 16).unwrap();
    350 + u32::try_from(low % 50).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_foreign_vm_with_the_vmid_of_a_node_is_not_touched() {
    let rig = with_vm(300, "precious");
    let before = rig.vms().await[&300].clone();
    rig.up(&pair()).await.assert_done();
    let after = rig.vms().await;
    let names: Vec<(u32, &str)> =
        after.iter().map(|(vmid, vm)| (*vmid, vm.config["name"].as_str())).collect();
    let own = derived_vmid("cp-1");
    assert_eq!(names, [(100, "db"), (300, "precious"), (303, "wk-1"), (own, "cp-1")]);
    assert_eq!(after[&300], before);
    rig.destroy(&pair()).await.assert_done();
    let left = rig.vms().await;
    assert_eq!(left.keys().copied().collect::<Vec<_>>(), [100, 300]);
    assert_eq!(left[&300], before);
    // No request changed it, not even for a moment.
    let is_change =
        |call: &&String| !call.starts_with("GET ") && call.contains("/nodes/pve1/qemu/300");
    assert_eq!(rig.recorded_requests().iter().find(is_change), None);
    rig.watcher.assert_none();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_foreign_vm_with_a_vmid_of_the_inventory_is_an_error() {
    let rig = with_vm(300, "precious");
    let before = rig.vms().await;
    let text = pair().replace("ip: 10.0.0.11", "ip: 10.0.0.11, vmid: 300");
    let plan = rig.plan(&text).await;
    let shown = show::text(&plan);
    assert!(plan.errors().count() > 0, "{shown}");
    assert!(shown.contains("vmid 300 is used by another VM"), "{shown}");
    assert!(shown.contains("which talmox does not manage"), "{shown}");
    assert!(rig.destroy(&text).await.plan.steps.is_empty());
    assert_eq!(rig.vms().await, before);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_vm_of_the_same_name_is_not_changed() {
    let rig = with_vm(250, "cp-1");
    let before = rig.vms().await[&250].clone();
    rig.up(&pair()).await.assert_done();
    let after = rig.vms().await;
    assert_eq!(after.keys().copied().collect::<Vec<_>>(), [100, 250, 300, 303]);
    rig.destroy(&pair()).await.assert_done();
    let left = rig.vms().await;
    assert_eq!(left.keys().copied().collect::<Vec<_>>(), [100, 250]);
    assert_eq!(left[&250], before);
}

#[tokio::test(flavor = "multi_thread")]
async fn two_clusters_of_one_name_do_not_affect_each_other() {
    let mut rig = Rig::start();
    let first = home();
    rig.up(&first).await.assert_done();
    let before = rig.lab_state(&first).await;
    // The second cluster has the same names of cluster and nodes, other addresses and other secrets.
    let own_bundle = std::mem::replace(&mut rig.bundle, another_bundle());
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
    rig.bundle = own_bundle;
    assert_eq!(rig.lab_state(&first).await, before);
}

/// A user copied an inventory with its secrets, and changed all names, vmids and addresses in it.
#[tokio::test(flavor = "multi_thread")]
async fn a_copied_inventory_with_its_secrets_neither_joins_nor_destroys_the_first_cluster() {
    let rig = Rig::start();
    rig.up(&pair()).await.assert_done();
    let before = rig.vms().await;
    let copy = pair()
        .replace("cluster_name: home", "cluster_name: copy")
        .replace("vmid_range: 300-399", "vmid_range: 500-599")
        .replace("cp-1", "copy-cp-1")
        .replace("wk-1", "copy-wk-1")
        .replace("10.0.0.11", "10.0.0.111")
        .replace("10.0.0.21", "10.0.0.121")
        .replace("10.0.0.20", "10.0.0.120");
    let plan = rig.plan(&copy).await;
    let shown = show::text(&plan);
    assert!(plan.errors().any(|error| error.message.contains("same secrets")), "{shown}");
    assert!(shown.contains("300 (cp-1, home;talmox), 303 (wk-1, home;talmox)"), "{shown}");
    let ran = rig.destroy(&copy).await;
    ran.assert_done();
    assert!(ran.plan.steps.is_empty(), "{}", show::text(&ran.plan));
    assert!(show::text(&ran.plan).contains("they are kept"), "{}", show::text(&ran.plan));
    assert_eq!(rig.vms().await, before);
    let with_secrets = DestroyOptions { secrets: true, ..DestroyOptions::default() };
    assert_eq!(
        rig.destroy_plan(&copy, with_secrets).await.errors().count(),
        1,
        "the VMs need them"
    );

    // Other tags do not make the VM an owned VM of the copy, because its notes name another cluster. Notes without a cluster
    // name do not either, as long as another VM belongs to another cluster.
    rig.disguise("pve1", 303).await;
    let ran = rig.destroy(&copy).await;
    assert!(ran.plan.steps.is_empty(), "{}", show::text(&ran.plan));
    let vm = Vm::new(&"pve1".parse().unwrap(), VmId::new(303).unwrap());
    let marked = marker(&bundle().cluster.id, "wk-1", Stage::Made).to_string();
    let set = VmOptions::new().description(&marked);
    let change = VmChange { set, ..VmChange::default() };
    rig.client(ADMIN).send(&qemu::set_config(&vm, &change)).await.unwrap();
    let ran = rig.destroy(&copy).await;
    assert!(ran.plan.steps.is_empty(), "{}", show::text(&ran.plan));
    assert!(show::text(&ran.plan).contains("303 (wk-1, mine)"), "{}", show::text(&ran.plan));

    // If only the name of the cluster differs, a copy and the original look the same. Neither tags nor notes name the cluster
    // of wk-1 any more.
    let renamed = pair().replace("cluster_name: home", "cluster_name: copy");
    let ending = rig.destroy_plan(&renamed, DestroyOptions::default()).await;
    let errors: Vec<_> = ending.errors().map(|error| error.message.as_str()).collect();
    assert_eq!(errors.len(), 2, "{errors:?}");
    assert!(
        errors[0].contains("belongs to another cluster by tags or notes (home;talmox)"),
        "{errors:?}"
    );
    assert!(
        errors[1].contains("neither tags (mine) nor notes name the cluster copy"),
        "{errors:?}"
    );
}

/// The marker of the VM of a node in this cluster.
fn marker(cluster_id: &str, node: &str, stage: Stage) -> Marker {
    Marker {
        cluster: ClusterMark::of(cluster_id),
        node: node.to_owned(),
        stage,
        data: None,
        are_tags_rejected: false,
        first_role: None,
        own_tags: Tags::default(),
        notes: None,
    }
}

/// The inventory sets the vmid, and the VM with that vmid is like an owned VM except for one property. One difference is
/// enough to make it a foreign VM.
#[tokio::test(flavor = "multi_thread")]
async fn a_vm_that_differs_in_one_identifier_is_foreign() {
    let id = bundle().cluster.id;
    let (other, own) = (another_bundle().cluster.id, SmbiosUuid::of(&id, "cp-1").to_string());
    let text = pair().replace("ip: 10.0.0.11", "ip: 10.0.0.11, vmid: 300");
    let twice = format!("{0}\n{0}", marker(&id, "cp-1", Stage::Made));
    for (why, name, description, uuid) in [
        ("no marker", "cp-1", String::from("precious"), own.as_str()),
        ("another cluster", "cp-1", marker(&other, "cp-1", Stage::Made).to_string(), &own),
        ("another node", "cp-1", marker(&id, "cp-9", Stage::Made).to_string(), &own),
        ("another uuid", "cp-1", marker(&id, "cp-1", Stage::Made).to_string(), FOREIGN_UUID),
        ("another uuid", "cp-1", marker(&id, "cp-1", Stage::Create).to_string(), FOREIGN_UUID),
        ("another name", "mine", marker(&id, "cp-1", Stage::Clone).to_string(), FOREIGN_UUID),
        ("two markers", "cp-1", twice, &own),
    ] {
        let rig = with_marked_vm(300, name, &description, uuid);
        let before = rig.vms().await;
        let plan = rig.plan(&text).await;
        let shown = show::text(&plan);
        assert!(plan.errors().count() > 0, "{why}: {shown}");
        assert!(shown.contains("300"), "{why}: {shown}");
        // UUIDs of nodes are unique. A VM that has only the UUID of a node may be in use under a copy of the inventory.
        let end = rig.destroy_plan(&text, DestroyOptions::default()).await;
        let shown = show::text(&end);
        assert!(end.steps.is_empty(), "{why}: {shown}");
        assert_eq!(end.errors().count() > 0, uuid == own, "{why}: {shown}");
        assert_eq!(rig.vms().await, before, "{why}");
    }
}

/// The inventory was copied with its secrets, and users removed tags and notes from the VMs.
#[tokio::test(flavor = "multi_thread")]
async fn a_copied_inventory_destroys_no_vm_without_tags_and_notes() {
    let rig = Rig::start();
    rig.up(&pair()).await.assert_done();
    let vm = Vm::new(&"pve1".parse().unwrap(), VmId::new(303).unwrap());
    let marked = marker(&bundle().cluster.id, "wk-1", Stage::Made).to_string();
    for (description, why) in [
        (marked.as_str(), "neither tags (mine) nor notes name the cluster home"),
        ("mine now", "it does not carry talmox's marker"),
    ] {
        let set = VmOptions::new().set("tags", "mine").description(description);
        let change = VmChange { set, ..VmChange::default() };
        rig.client(ADMIN).send(&qemu::set_config(&vm, &change)).await.unwrap();
        let end = rig.destroy_plan(&pair(), DestroyOptions::default()).await;
        let shown = show::text(&end);
        let is_reported =
            |error: &plan::Finding| error.subject == "wk-1" && error.message.contains(why);
        assert!(end.errors().any(is_reported), "{shown}");
        let mut hints = end.findings.iter().filter_map(|finding| finding.hint.as_ref());
        assert!(
            hints.all(|hint| !hint.contains("qm destroy") && !hint.contains("delete")),
            "{shown}"
        );
    }
    assert_eq!(rig.vms().await.keys().copied().collect::<Vec<_>>(), [100, 300, 303]);
    // With its tags and notes, the VM is destroyed.
    let set = VmOptions::new().set("tags", "talmox;home").description(&marked);
    let change = VmChange { set, ..VmChange::default() };
    rig.client(ADMIN).send(&qemu::set_config(&vm, &change)).await.unwrap();
    rig.destroy(&pair()).await.assert_done();
    assert_eq!(rig.vms().await.keys().copied().collect::<Vec<_>>(), [100]);
}

/// A user cloned an owned VM with its notes. Proxmox gave the clone another UUID.
#[tokio::test(flavor = "multi_thread")]
async fn a_copy_of_an_owned_vm_is_foreign() {
    let rig = Rig::start();
    rig.up(&pair()).await.assert_done();
    let clone = CloneVm {
        newid: VmId::new(350).unwrap(),
        name: "cp-1".to_owned(),
        description: rig.vms().await[&300].config["description"].clone(),
        pool: Some("talos".parse().unwrap()),
        full: true,
        storage: None,
        target: None,
    };
    let vm = Vm::new(&"pve1".parse().unwrap(), VmId::new(300).unwrap());
    rig.stop_vm(300).await;
    let client = rig.client(ADMIN);
    client.run(&qemu::clone(&vm, &clone), std::time::Duration::from_mins(10)).await.unwrap();
    let copy = rig.vms().await[&350].clone();
    rig.up(&pair()).await.assert_done();
    rig.destroy(&pair()).await.assert_done();
    let left = rig.vms().await;
    assert_eq!(left.keys().copied().collect::<Vec<_>>(), [100, 350]);
    assert_eq!(left[&350], copy);
}

/// The notes are changed right after the VM was stopped, before it is deleted.
#[tokio::test(flavor = "multi_thread")]
async fn a_vm_whose_marker_is_removed_before_the_delete_is_kept() {
    let rig = Arc::new(Rig::start());
    rig.up(&pair()).await.assert_done();
    let (desired, changed) = (rig.desired(&pair()), Arc::new(AtomicBool::default()));
    let observed = rig.observe(&desired).await.unwrap();
    let plan = planning::destroy(&desired, &observed, DestroyOptions::default());
    let (there, is_changed) = (Arc::clone(&rig), Arc::clone(&changed));
    let hook: CutHook = Arc::new(move |step, moment| {
        if step.as_str() == "vm/wk-1/stop" && moment == Moment::AfterAct {
            let runtime = tokio::runtime::Handle::current();
            tokio::task::block_in_place(|| runtime.block_on(there.take_marker(303)));
            is_changed.store(true, Ordering::Relaxed);
        }
        Cut::Go
    });
    let ran = rig.carry_out(plan, &pair(), Some(hook)).await;
    assert!(changed.load(Ordering::Relaxed));
    let failures = ran.failures();
    assert!(failures.contains("VM 303 is not the VM of wk-1"), "{failures}");
    assert!(failures.contains("it does not carry talmox's marker"), "{failures}");
    let deleted: Vec<String> =
        rig.recorded_requests().into_iter().filter(|call| call.starts_with("DELETE")).collect();
    assert_eq!(deleted, ["DELETE /nodes/pve1/qemu/300"]);
    assert_eq!(rig.vms().await.keys().copied().collect::<Vec<_>>(), [100, 303]);
}

/// A VM without its marker and its tags is not owned, and no second VM is created for its node.
#[tokio::test(flavor = "multi_thread")]
async fn a_vm_that_lost_its_marker_is_not_created_a_second_time() {
    let rig = Rig::start();
    rig.up(&pair()).await.assert_done();
    for is_running in [true, false] {
        if !is_running {
            rig.stop_vm(303).await;
        }
        rig.take_marker(303).await;
        let before = rig.vms().await;
        let plan = rig.plan(&pair()).await;
        let shown = show::text(&plan);
        assert!(plan.errors().any(|one| one.message.contains("VM 303")), "{shown}");
        assert!(!shown.contains("vmid: 302"), "{shown}");
        assert_eq!(rig.vms().await, before);
    }
}

/// The node of the VM is no longer in the inventory, and users changed everything but the marker of the VM.
#[tokio::test(flavor = "multi_thread")]
async fn a_removed_node_is_recognised_by_its_marker_alone() {
    let rig = Rig::start();
    rig.up(&pair()).await.assert_done();
    rig.disguise("pve1", 303).await;
    let workers = pair().find("workers:").unwrap();
    let without = &pair()[..workers];
    let plan = rig.plan(without).await;
    let shown = show::text(&plan);
    // The VM and the entry of the node in Kubernetes are one block.
    let (_, removed) =
        shown.split_once("- vm wk-1  (destroy, not done: needs --allow-removal)\n").unwrap();
    let block: Vec<&str> = removed.split("\n\n").next().unwrap().split_whitespace().collect();
    assert_eq!(block[..6], ["vmid", "303", "host", "pve1", "kubernetes", "registered"], "{shown}");
    assert!(shown.contains("not done: 1 needs --allow-removal"), "{shown}");
    rig.destroy(without).await.assert_done();
    assert_eq!(rig.vms().await.keys().copied().collect::<Vec<_>>(), [100]);
}

/// A user removes a VM from the pool. A token that has rights only on the pool cannot see the VM any more.
#[tokio::test(flavor = "multi_thread")]
async fn a_vm_outside_the_pool_is_not_created_a_second_time_and_keeps_the_secrets() {
    let rig = Rig::start();
    rig.up(&pair()).await.assert_done();
    // The VM is stopped, because a running VM would be found by its address.
    rig.stop_vm(303).await;
    let (pool, vmid) = ("talos".parse().unwrap(), VmId::new(303).unwrap());
    let members = Members { guests: vec![vmid], storages: vec![] };
    rig.client(ADMIN).send(&pool::remove(&pool, &members)).await.unwrap();
    let before = rig.vms().await;
    let plan = rig.plan(&pair()).await;
    let hidden =
        "VM 303 exists, and the token may not see it, although it was created with this login";
    assert!(plan.errors().any(|error| error.message == hidden), "{}", show::text(&plan));
    let options = DestroyOptions { images: false, secrets: true };
    let end = rig.destroy_plan(&pair(), options).await;
    assert!(end.errors().any(|error| error.message == hidden), "{}", show::text(&end));
    assert_eq!(rig.vms().await, before);
    rig.destroy(&pair()).await.assert_done();
    assert_eq!(rig.vms().await.keys().copied().collect::<Vec<_>>(), [100, 303]);
}

/// There is no pool to search, and the login can see every VM.
#[tokio::test(flavor = "multi_thread")]
async fn a_renamed_vm_is_not_created_a_second_time_without_a_pool() {
    let mut rig = Rig::start();
    rig.token = ADMIN;
    let text = pair().replace("pool: talos, ", "");
    rig.up(&text).await.assert_done();
    let members = async || rig.talos("10.0.0.11".parse().unwrap()).etcd_members().await.unwrap();
    let before = members().await;
    for vmid in [300, 303] {
        rig.stop_vm(vmid).await;
        rig.disguise("pve1", vmid).await;
    }
    let plan = rig.plan(&text).await;
    let shown = show::text(&plan);
    assert!(plan.steps.iter().all(|step| !step.id.as_str().ends_with("/create")), "{shown}");
    assert!(shown.contains("renamed-300 → cp-1"), "{shown}");
    assert!(shown.contains("renamed-303 → wk-1"), "{shown}");
    // `up` does not change the names back. The other steps of the plan use the existing cluster.
    rig.carry_out(plan, &text, None).await.assert_done();
    assert_eq!(rig.vms().await.keys().copied().collect::<Vec<_>>(), [100, 300, 303]);
    assert_eq!(members().await, before);
}

/// A VM on a host that is down cannot be read, and nothing else shows that it is an owned VM.
#[tokio::test(flavor = "multi_thread")]
async fn a_renamed_vm_on_a_host_that_is_down_is_not_created_a_second_time() {
    let rig = Rig::start();
    let text = pair().replace("ip: 10.0.0.21", "ip: 10.0.0.21, host: pve2");
    rig.up(&text).await.assert_done();
    rig.disguise("pve2", 303).await;
    rig.lose("pve2").await;
    // The inventory now has the node on another host.
    let plan = rig.plan(&pair()).await;
    let missing =
        "its VM is missing, and may be one that cannot be read, under another name: VM 303 on pve2";
    assert!(
        plan.errors().any(|one| one.subject == "wk-1" && one.message.starts_with(missing)),
        "{}",
        show::text(&plan)
    );
    let end = rig.destroy_plan(&text, DestroyOptions { images: false, secrets: true }).await;
    let left = "the config of a VM cannot be read, so it may be a renamed VM of this cluster: VM 303 on pve2";
    assert!(end.errors().any(|one| one.message.starts_with(left)), "{}", show::text(&end));
}

/// The inventory sets the vmids of the nodes. VMs on a host that is down are reported, and the other VMs are found.
#[tokio::test(flavor = "multi_thread")]
async fn vms_on_a_host_that_is_down_are_named_and_delay_the_destroy() {
    let rig = Rig::start();
    let text = pair().replace("ip: 10.0.0.21", "ip: 10.0.0.21, host: pve2, vmid: 303");
    rig.up(&text).await.assert_done();
    rig.lose("pve2").await;
    let unread = "VM 303 on pve2 cannot be read: the host does not run";
    let plan = rig.plan(&text).await;
    let errors: Vec<&str> = plan.errors().map(|one| one.message.as_str()).collect();
    assert!(errors.contains(&unread), "{}", show::text(&plan));
    let desired = rig.desired(&text);
    let observed = rig.observe(&desired).await.unwrap();
    assert_eq!(foreign_vms(&desired, &observed.pve)["wk-1"], unread);
    assert!(locations(&desired, &observed.pve)[0].1.is_some(), "cp-1 is where it was");
    let end = rig.destroy_plan(&text, DestroyOptions::default()).await;
    let left = "VM 303 may belong to this cluster, and cannot be read: the host does not run";
    assert!(end.errors().any(|one| one.message == left), "{}", show::text(&end));
}

impl Rig {
    /// Switches a host off, and waits until the list of all hosts shows it.
    pub(crate) async fn lose(&self, host: &str) {
        let down = FaultAction::Down { host: host.to_owned(), lasts: None };
        self.inject_fault("GET", "/version", 1, down);
        self.client(ADMIN).send(&cluster::version()).await.unwrap();
        let is_down = async || {
            let resources = self.client(ADMIN).send(&cluster::resources()).await.unwrap();
            resources.hosts.iter().any(|seen| seen.node.as_str() == host && seen.status != "online")
        };
        while !is_down().await {
            self.lab.clock().sleep(std::time::Duration::from_secs(1)).await;
        }
    }

    /// Changes the name and the tags of a VM, and waits until the list of all VMs shows them.
    async fn disguise(&self, host: &str, vmid: u32) {
        let vm = Vm::new(&host.parse().unwrap(), VmId::new(vmid).unwrap());
        let name = format!("renamed-{vmid}");
        let set = VmOptions::new().name(&name).set("tags", "mine");
        let change = VmChange { set, ..VmChange::default() };
        self.client(ADMIN).send(&qemu::set_config(&vm, &change)).await.unwrap();
        let is_shown = |guest: &Guest| {
            guest.name.as_ref() == Some(&name) && guest.tags.iter().all(|tag| tag == "mine")
        };
        while !self.guests().await.iter().any(is_shown) {
            self.lab.clock().sleep(std::time::Duration::from_secs(1)).await;
        }
    }

    /// Replaces the notes and the tags of a VM, so that nothing but its UUID and its name is left.
    async fn take_marker(&self, vmid: u32) {
        let vm = Vm::new(&"pve1".parse().unwrap(), VmId::new(vmid).unwrap());
        let set = VmOptions::new().description("mine now").set("tags", "mine");
        let change = VmChange { set, ..VmChange::default() };
        self.client(ADMIN).send(&qemu::set_config(&vm, &change)).await.unwrap();
    }
}
