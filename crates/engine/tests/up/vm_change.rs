//! Changes of VMs. The inventory or a user of Proxmox changes a VM, and `up` makes the VM match the inventory.
//!
//! The results are read from the lab: configs and hosts of VMs with an administrator's token, boot IDs from the nodes, and
//! pods from the store of the simulated Kubernetes.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use talmox_engine::event::Event;
use talmox_lab::kube::KubeStore;
use talmox_lab::pve::Action as FaultAction;
use talmox_plan::plan::{Left, show};
use talmox_plan::planning::Scope;
use talmox_pve::api::qemu::{self, Vm};
use talmox_pve::config::{VmChange, VmOptions};
use talmox_pve::id::VmId;

use super::inventory::HEAD;
use super::rig::{ADMIN, CompletedRun, LabOptions, Rig};
use super::versions::{
    PVE_8_TALOS_11, PVE_8_TALOS_12, PVE_8_TALOS_13, PVE_9_TALOS_11, PVE_9_TALOS_12, PVE_9_TALOS_13,
    Versions, each,
};

/// One control plane and two workers.
const NODES: &str = "
controlplane:
  - {name: cp-1, ip: 10.0.0.11, vmid: 300}
workers:
  - {name: wk-1, ip: 10.0.0.21, vmid: 301}
  - {name: wk-2, ip: 10.0.0.22, vmid: 302}
";
const ADDRESSES: [(&str, [u8; 4]); 3] =
    [("cp-1", [10, 0, 0, 11]), ("wk-1", [10, 0, 0, 21]), ("wk-2", [10, 0, 0, 22])];
const CP_1: u32 = 300;
pub(crate) const WK_1: u32 = 301;
pub(crate) const WK_2: u32 = 302;

pub(crate) fn inventory(versions: Versions) -> String {
    versions.inventory(&format!("{HEAD}{NODES}"))
}

/// The inventory with additional settings for a node.
pub(crate) fn with(text: &str, node: &str, settings: &str) -> String {
    let name = format!("name: {node},");
    assert!(text.contains(&name), "{text}");
    text.replace(&name, &format!("{name} {settings},"))
}

pub(crate) async fn boot_ids(rig: &Rig) -> BTreeMap<&'static str, String> {
    let mut ids = BTreeMap::new();
    for (name, address) in ADDRESSES {
        ids.insert(name, rig.talos(address.into()).boot_id().await.unwrap());
    }
    ids
}

/// Changes a VM as a user of Proxmox does.
pub(crate) async fn edit(rig: &Rig, vmid: u32, set: VmOptions) {
    let vm = Vm::new(&"pve1".parse().unwrap(), VmId::new(vmid).unwrap());
    let change = VmChange { set, ..VmChange::default() };
    rig.client(ADMIN).send(&qemu::set_config(&vm, &change)).await.unwrap();
}

pub(crate) fn has_step(ran: &CompletedRun, id: &str) -> bool {
    ran.plan.steps.iter().any(|step| step.id.as_str() == id)
}

/// Index of the first event that satisfies `is_it`.
fn at(ran: &CompletedRun, is_it: impl Fn(&Event) -> bool) -> usize {
    ran.events.iter().position(|event| is_it(&event.what)).unwrap()
}

fn starts(id: &'static str) -> impl Fn(&Event) -> bool {
    move |event| matches!(event, Event::StepStarted { step } if step == id)
}

fn ends(id: &'static str) -> impl Fn(&Event) -> bool {
    move |event| matches!(event, Event::StepEnded { step, .. } if step == id)
}

/// Runs four pods of which three must be healthy at any time.
async fn deploy(rig: &Rig) -> Arc<KubeStore> {
    let store = rig.lab.kubernetes_stores().remove(0);
    let labels = json!({"app": "web"});
    let deployment = json!({
        "metadata": {"name": "web", "namespace": "default"},
        "spec": {
            "replicas": 4,
            "selector": {"matchLabels": labels},
            "template": {
                "metadata": {"labels": labels},
                "spec": {"containers": [{"name": "web", "image": "web:1"}]},
            },
        },
    });
    let budget = json!({
        "metadata": {"name": "web", "namespace": "default"},
        "spec": {"minAvailable": 3, "selector": {"matchLabels": labels}},
    });
    store.create("deployments.apps", deployment).unwrap();
    store.create("poddisruptionbudgets.policy", budget).unwrap();
    until_all_ready(&store).await;
    store
}

/// Waits until all pods of the deployment are healthy.
async fn until_all_ready(store: &KubeStore) {
    let all_ready = async {
        let mut revisions = store.revisions();
        while ready_pods(store).len() < 4 {
            revisions.changed().await.unwrap();
        }
    };
    tokio::time::timeout(Duration::from_mins(1), all_ready).await.expect("all pods are healthy");
}

/// uid and node of each healthy pod of the deployment.
fn ready_pods(store: &KubeStore) -> BTreeMap<String, String> {
    let is_ready = |pod: &Value| {
        let conditions = pod["status"]["conditions"].as_array();
        let mut conditions = conditions.into_iter().flatten();
        conditions.any(|one| one["type"] == "Ready" && one["status"] == "True")
            && pod["metadata"]["deletionTimestamp"].is_null()
    };
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let pods = store.list("pods");
    let own = pods.iter().filter(|pod| pod["metadata"]["labels"]["app"] == "web" && is_ready(pod));
    own.map(|pod| (text(&pod["metadata"]["uid"]), text(&pod["spec"]["nodeName"]))).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn memory_of_all_workers_is_changed_one_by_one() {
    each(&[PVE_9_TALOS_12], memory_of_all_workers_is_changed_one_by_one_on).await;
}

async fn memory_of_all_workers_is_changed_one_by_one_on(versions: Versions) {
    let rig = Rig::of(versions.lab_options());
    let text = inventory(versions);
    rig.up(&text).await.assert_done();
    let store = deploy(&rig).await;
    let pods = ready_pods(&store);
    let boots = boot_ids(&rig).await;

    let text = with(&with(&text, "wk-1", "memory: 6144"), "wk-2", "memory: 6144");
    let ran = rig.converge(&text).await;
    let vms = rig.vms().await;
    for (vmid, memory) in [(CP_1, "4096"), (WK_1, "6144"), (WK_2, "6144")] {
        assert_eq!(vms[&vmid].config["memory"], memory, "{vmid}");
        assert_eq!(vms[&vmid].status, "running", "{vmid}");
    }
    let after = boot_ids(&rig).await;
    assert_eq!(after["cp-1"], boots["cp-1"]);
    assert!(after["wk-1"] != boots["wk-1"] && after["wk-2"] != boots["wk-2"]);
    // The first worker is back before the other worker is changed.
    let is_back = at(&ran, ends("node/wk-1/uncordon"));
    assert!(at(&ran, starts("node/wk-2/drain")) > is_back);
    assert!(at(&ran, starts("vm/wk-1/shutdown")) > at(&ran, ends("node/wk-1/drain")));
    // Both workers were drained, so all former pods were replaced, and four new pods run.
    until_all_ready(&store).await;
    assert!(ready_pods(&store).keys().all(|uid| !pods.contains_key(uid)));
    for name in ["cp-1", "wk-1", "wk-2"] {
        let node = store.get("nodes", "", name).unwrap();
        assert!(node["spec"]["unschedulable"].is_null(), "{node}");
    }
    rig.watcher.assert_none();
}

#[tokio::test(flavor = "multi_thread")]
async fn live_changes_need_no_restart() {
    each(&[PVE_8_TALOS_13], live_changes_need_no_restart_on).await;
}

async fn live_changes_need_no_restart_on(versions: Versions) {
    let rig = Rig::of(LabOptions {
        with: vec![
            ("    memory: 256GiB\n", "    memory: 256GiB\n    bridges: [vmbr0, vmbr1]\n".to_owned()),
            (
                "    - {path: /nodes/pve1, ugid: talmox@pve, roleid: TalmoxFetch}\n",
                "    - {path: /sdn/zones/localnetwork/vmbr1, ugid: talmox@pve, roleid: TalmoxNet}\n    \
                 - {path: /sdn/zones/localnetwork/vmbr1, ugid: \"talmox@pve!ci\", roleid: TalmoxNet}\n    \
                 - {path: /nodes/pve1, ugid: talmox@pve, roleid: TalmoxFetch}\n"
                    .to_owned(),
            ),
        ],
        ..versions.lab_options()
    });
    let base = inventory(versions);
    let text = with(&base, "wk-1", "nics: [{bridge: vmbr0, ip: 10.1.0.21/24}]");
    rig.up(&text).await.assert_done();
    let boots = boot_ids(&rig).await;
    let tags = rig.vms().await[&WK_2].config["tags"].clone();
    // A user of Proxmox changes two options.
    edit(&rig, WK_2, VmOptions::new().set("onboot", "0").set("tags", "mine")).await;

    let text = with(&base, "wk-1", "nics: [{bridge: vmbr1, ip: 10.1.0.21/24}], tags: [blue]");
    rig.converge(&text).await;
    let vms = rig.vms().await;
    let first = &vms[&WK_1].config;
    assert!(first["net1"].contains("bridge=vmbr1"), "{first:?}");
    assert!(first["tags"].split(';').any(|tag| tag == "blue"), "{first:?}");
    let second = &vms[&WK_2].config;
    assert_eq!(second["onboot"], "1");
    let has = |tag: &str| second["tags"].split(';').any(|own| own == tag);
    assert!(tags.split(';').all(has), "{tags}: {second:?}");
    assert_eq!(boot_ids(&rig).await, boots);
}

#[tokio::test(flavor = "multi_thread")]
async fn disks_grow_and_are_added_and_never_shrink() {
    each(&[PVE_9_TALOS_13], disks_grow_and_are_added_and_never_shrink_on).await;
}

async fn disks_grow_and_are_added_and_never_shrink_on(versions: Versions) {
    let rig = Rig::of(versions.lab_options());
    let base = inventory(versions);
    rig.up(&base).await.assert_done();
    let before = rig.vms().await[&WK_1].config["scsi0"].clone();
    let volume = before.split(',').next().unwrap();

    let text = with(&base, "wk-1", "disk: 50G, disks: [{size: 10G}]");
    rig.converge(&text).await;
    let config = rig.vms().await[&WK_1].config.clone();
    assert!(config["scsi0"].starts_with(volume), "the same volume: {config:?}");
    assert!(config["scsi0"].contains("size=50G"), "{config:?}");
    assert!(config["scsi1"].contains("size=10G"), "{config:?}");

    let smaller = with(&base, "wk-1", "disk: 45G, disks: [{size: 10G}]");
    let plan = rig.plan(&smaller).await;
    let shown = show::text(&plan);
    assert!(plan.steps.is_empty(), "{shown}");
    assert!(plan.changes.iter().any(|change| change.left == Some(Left::Impossible)), "{shown}");
    assert_eq!(rig.vms().await[&WK_1].config, config);
    rig.watcher.assert_none();
}

/// A right that only migrations need.
fn may_migrate() -> (&'static str, String) {
    ("Pool.Audit]", "Pool.Audit, VM.Migrate]".to_owned())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_vm_on_shared_storage_moves_while_it_runs() {
    each(&[PVE_8_TALOS_11], a_vm_on_shared_storage_moves_while_it_runs_on).await;
}

async fn a_vm_on_shared_storage_moves_while_it_runs_on(versions: Versions) {
    let tank = "type: lvmthin, vgname: tank, thinpool: data, content: images";
    let shared = "type: lvm, vgname: tank, shared: 1, content: images".to_owned();
    let rig =
        Rig::of(LabOptions { with: vec![(tank, shared), may_migrate()], ..versions.lab_options() });
    let base = inventory(versions).replace("pool: talos,", "pool: talos, datastore: tank,");
    rig.up(&base).await.assert_done();
    let boots = boot_ids(&rig).await;

    let ran = rig.converge(&with(&base, "wk-1", "host: pve2")).await;
    let vms = rig.vms().await;
    let shown = show::text(&ran.plan);
    let found = (vms[&WK_1].host.as_str(), vms[&WK_1].status.as_str());
    assert_eq!(found, ("pve2", "running"), "{shown}");
    assert_eq!(vms[&WK_2].host, "pve1");
    assert_eq!(boot_ids(&rig).await, boots);
}

/// Two hosts with the same device under one mapping, which the token may use.
fn lab_options_with_gpus(versions: Versions) -> LabOptions {
    let device = "    pci: [{address: '0000:29:00.0', vendor: '0x10de', device: '0x2204', iommu_group: 13}]\n";
    let on = |host: &str| format!("'node={host},path=0000:29:00.0,id=10de:2204,iommugroup=13'");
    let mapping =
        format!("mappings:\n  pci:\n    - {{id: rtx, map: [{}, {}]}}\n", on("pve1"), on("pve2"));
    let pools = "pools:\n";
    let roles = "    - {roleid: TalmoxNet, privs: [SDN.Use]}\n";
    let fetch = "    - {path: /nodes/pve1, ugid: talmox@pve, roleid: TalmoxFetch}\n";
    LabOptions {
        with: vec![
            ("  - name: pve1\n", format!("  - name: pve1\n{device}")),
            ("  - name: pve2\n", format!("  - name: pve2\n{device}")),
            (pools, format!("{mapping}{pools}")),
            (
                roles,
                format!(
                    "{roles}    - {{roleid: TalmoxDevice, privs: [Mapping.Audit, Mapping.Use]}}\n"
                ),
            ),
            (
                fetch,
                format!(
                    "    - {{path: /mapping/pci/rtx, ugid: talmox@pve, roleid: TalmoxDevice}}\n    \
                     - {{path: /mapping/pci/rtx, ugid: \"talmox@pve!ci\", roleid: TalmoxDevice}}\n{fetch}"
                ),
            ),
            may_migrate(),
        ],
        ..versions.lab_options()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_vm_with_a_gpu_moves_while_it_is_stopped() {
    each(&[PVE_9_TALOS_12], a_vm_with_a_gpu_moves_while_it_is_stopped_on).await;
}

async fn a_vm_with_a_gpu_moves_while_it_is_stopped_on(versions: Versions) {
    let rig = Rig::of(lab_options_with_gpus(versions));
    let base = with(&inventory(versions), "wk-1", "gpu: {mapping: rtx}");
    rig.up(&base).await.assert_done();
    let boots = boot_ids(&rig).await;

    let ran = rig.converge(&with(&base, "wk-1", "host: pve2")).await;
    let vms = rig.vms().await;
    assert_eq!((vms[&WK_1].host.as_str(), vms[&WK_1].status.as_str()), ("pve2", "running"));
    assert!(vms[&WK_1].config["hostpci0"].contains("mapping=rtx"), "{:?}", vms[&WK_1]);
    let after = boot_ids(&rig).await;
    assert_ne!(after["wk-1"], boots["wk-1"]);
    assert_eq!((&after["cp-1"], &after["wk-2"]), (&boots["cp-1"], &boots["wk-2"]));
    assert!(has_step(&ran, "node/wk-1/drain"), "{}", show::text(&ran.plan));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_gpu_is_added_and_removed() {
    each(&[PVE_8_TALOS_13], a_gpu_is_added_and_removed_on).await;
}

async fn a_gpu_is_added_and_removed_on(versions: Versions) {
    let rig = Rig::of(lab_options_with_gpus(versions));
    let base = inventory(versions);
    rig.up(&base).await.assert_done();
    for (text, has_gpu) in [(with(&base, "wk-1", "gpu: {mapping: rtx}"), true), (base, false)] {
        let boots = boot_ids(&rig).await;
        let ran = rig.converge(&text).await;
        let config = rig.vms().await[&WK_1].config.clone();
        assert_eq!(config.contains_key("hostpci0"), has_gpu, "{config:?}");
        assert!(has_step(&ran, "node/wk-1/drain"), "{}", show::text(&ran.plan));
        let after = boot_ids(&rig).await;
        assert_ne!(after["wk-1"], boots["wk-1"]);
        assert_eq!(after["wk-2"], boots["wk-2"]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stopped_vm_is_changed_before_it_is_started() {
    each(&[PVE_8_TALOS_12], a_stopped_vm_is_changed_before_it_is_started_on).await;
}

async fn a_stopped_vm_is_changed_before_it_is_started_on(versions: Versions) {
    let rig = Rig::of(versions.lab_options());
    let base = inventory(versions);
    rig.up(&base).await.assert_done();
    rig.stop_vm(WK_1).await;

    let ran = rig.converge(&with(&base, "wk-1", "memory: 6144, cores: 3")).await;
    let vm = rig.vms().await[&WK_1].clone();
    assert_eq!((vm.config["memory"].as_str(), vm.config["cores"].as_str()), ("6144", "3"));
    assert_eq!(vm.status, "running");
    assert!(!has_step(&ran, "node/wk-1/drain"), "{}", show::text(&ran.plan));
    assert!(at(&ran, starts("vm/wk-1/start")) > at(&ran, ends("vm/wk-1/change")));
}

/// One worker is stopped, and the other gets an option that a running VM accepts at once. The worker that is stopped comes first,
/// and if it does not come back, the other one stays as it is.
#[tokio::test(flavor = "multi_thread")]
async fn a_running_vm_is_changed_after_the_stopped_ones_are_back() {
    for is_rejected in [true, false] {
        let rig = Rig::of(PVE_9_TALOS_11.lab_options());
        let base = inventory(PVE_9_TALOS_11);
        rig.up(&base).await.assert_done();
        rig.stop_vm(WK_1).await;
        let text = with(&base, "wk-2", "tags: [blue]");
        let has_tag = async || {
            let tags = rig.vms().await[&WK_2].config["tags"].clone();
            tags.split(';').any(|tag| tag == "blue")
        };
        if is_rejected {
            let message = "the storage is full".to_owned();
            let reject = FaultAction::Reject { status: 500, message };
            rig.inject_fault("POST", "/nodes/{node}/qemu/301/status/start", u64::MAX, reject);
            let ran = rig.up(&text).await;
            assert!(ran.failures().contains("vm/wk-1/start"), "{}", ran.failures());
            assert!(!has_tag().await);
        } else {
            let ran = rig.converge(&text).await;
            assert!(at(&ran, starts("vm/wk-2/change")) > at(&ran, ends("talos/wk-1/join")));
            assert!(has_tag().await);
        }
    }
}

/// A run that is limited to one node leaves the others as they are.
#[tokio::test(flavor = "multi_thread")]
async fn only_the_selected_node_is_changed() {
    each(&[PVE_9_TALOS_11], only_the_selected_node_is_changed_on).await;
}

async fn only_the_selected_node_is_changed_on(versions: Versions) {
    let rig = Rig::of(versions.lab_options());
    let base = inventory(versions);
    rig.up(&base).await.assert_done();
    let text = with(&with(&base, "wk-1", "cores: 3"), "wk-2", "cores: 3");
    let scope = Scope { nodes: Some(["wk-2".to_owned()].into()), ..Scope::default() };
    rig.up_within(&text, &scope).await.assert_done();
    let vms = rig.vms().await;
    let cores = |vmid: u32| vms[&vmid].config["cores"].as_str();
    assert_eq!((cores(WK_1), cores(WK_2)), ("2", "3"));
    rig.converge(&text).await;
    assert_eq!(rig.vms().await[&WK_1].config["cores"], "3");
}
