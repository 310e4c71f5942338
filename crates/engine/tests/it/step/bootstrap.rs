use std::time::Duration;

use talmox_engine::execute::StepResult;
use talmox_lab::pve::Action as FaultAction;
use talmox_plan::ownership::{ClusterMark, FirstRole, Marker, Stage};
use talmox_plan::plan::{Action, BootstrapEtcd, ClusterSigns, Evidence, NodeSign, Witness};
use talmox_pve::id::VmId;
use talmox_pve::property::Tags;

use super::node::Etcd;
use super::rig::{MAC, Rig, UUID, talos_node};
use crate::common::inject_fault;
use crate::support::bundle;

const FIRST: &str = "10.0.0.11";
const OTHER: &str = "10.0.0.12";
const FOREIGN_UUID: &str = "00000000-0000-4000-8000-000000000001";
/// A UUID in the form that talmox derives.
const DERIVED: &str = "2ed6657d-e927-568b-95e1-2665a8aea6a2";
const STARTING: &str = "waiting for etcd to start on cp-11";
const PULLING: &str = "etcd is starting: pulling its image";

/// Line of the wait for etcd, with an answer of the node.
fn line(answer: &str) -> String {
    format!("{STARTING}: {answer}")
}

/// Signs of an inventory with one control plane. It does not name any other VM.
fn signs() -> ClusterSigns {
    ClusterSigns {
        cluster: "home".to_owned(),
        mark: ClusterMark::of(&bundle().cluster.id),
        nodes: vec![NodeSign {
            name: "cp-11".to_owned(),
            uuid: "00000000-0000-4000-8000-000000000011".to_owned(),
            vmid: VmId::new(300).unwrap(),
            has_etcd: true,
        }],
        addresses: vec!["10.0.0.20".parse().unwrap()],
    }
}

/// A VM with another name than the nodes of the inventory, in the form of a scenario.
fn other_vm(description: &str, tags: &str) -> String {
    let line = |key: &str, value: &str| {
        if value.is_empty() { String::new() } else { format!("      {key}: \"{value}\"\n") }
    };
    format!(
        "  - vmid: 777\n    node: pve1\n    status: running\n    config:\n      name: renamed\n      \
         ipconfig0: ip={OTHER}/24\n      net0: \"virtio={MAC},bridge=vmbr0\"\n      smbios1: uuid={UUID}\n{}{}",
        line("description", description),
        line("tags", tags),
    )
}

fn marker(stage: Stage) -> String {
    noted(stage, None)
}

fn noted(stage: Stage, first_role: Option<FirstRole>) -> String {
    let cluster = ClusterMark::of(&bundle().cluster.id);
    let node = "old-cp".to_owned();
    let marker = Marker {
        cluster,
        node,
        stage,
        data: None,
        are_tags_rejected: false,
        first_role,
        own_tags: Tags::default(),
        notes: None,
    };
    marker.to_string()
}

fn bootstrap(evidence: &[Evidence]) -> Action {
    let witness = |evidence: &Evidence| Witness { node: talos_node(OTHER), evidence: *evidence };
    Action::BootstrapEtcd(BootstrapEtcd {
        node: talos_node(FIRST),
        signs: signs(),
        witnesses: evidence.iter().map(witness).collect(),
        deadline: Duration::from_mins(10),
    })
}

#[tokio::test]
async fn etcd_is_bootstrapped_once_when_the_node_is_ready() {
    let mut rig = Rig::with_proxmox("");
    let node = rig
        .node(FIRST, |facts| {
            facts.is_configured = true;
            facts.not_yet = 2;
        })
        .await;
    let report = rig.run(bootstrap(&[])).await;
    assert!(matches!(report.result, StepResult::Done), "{:?}", report.result);
    assert_eq!(report.waits, [line("time is not in sync yet"), STARTING.to_owned()]);
    let again = rig.run(bootstrap(&[])).await;
    assert!(matches!(again.result, StepResult::Already), "{:?}", again.result);
    assert_eq!(node.facts().bootstraps, 1);
}

#[tokio::test]
async fn an_earlier_bootstrap_counts_as_done() {
    let mut rig = Rig::with_proxmox("");
    let node = rig
        .node(FIRST, |facts| {
            facts.is_configured = true;
            facts.etcd = Etcd::Bootstrapped;
        })
        .await;
    let report = rig.run(bootstrap(&[])).await;
    assert!(matches!(report.result, StepResult::Already), "{:?}", report.result);
    assert_eq!(report.waits, [STARTING]);
    let facts = node.facts().clone();
    assert_eq!((facts.bootstraps, facts.rejections), (0, 1));
}

#[tokio::test]
async fn a_node_without_time_sync_is_reported_with_a_hint() {
    let mut rig = Rig::with_proxmox("");
    let node = rig
        .node(FIRST, |facts| {
            facts.is_configured = true;
            facts.not_yet = u32::MAX;
        })
        .await;
    let report = rig.run(bootstrap(&[])).await;
    let failure = report.failure();
    assert_eq!(failure, "etcd does not come up on cp-11 in time: time is not in sync yet");
    assert!(report.hint().contains("network.gateway"), "{}", report.hint());
    assert!(report.hint().contains("UDP 123"), "{}", report.hint());
    assert_eq!(node.facts().bootstraps, 0);
}

/// The witnesses are read once the node accepts the bootstrap. Before that, the rejections of Proxmox have no effect.
#[tokio::test]
async fn no_witness_is_read_before_the_time_is_in_sync() {
    let mut rig = Rig::with_proxmox("");
    let node = rig
        .node(FIRST, |facts| {
            facts.is_configured = true;
            facts.synced = Some(false);
        })
        .await;
    let message = "got no worker upid".to_owned();
    let broken = FaultAction::Reject { status: 500, message };
    inject_fault(rig.lab(), "GET", "/cluster/resources", u64::MAX, broken);
    let failure = rig.run(bootstrap(&[])).await.failure();
    assert_eq!(failure, "etcd does not come up on cp-11 in time: time is not in sync yet");
    node.facts().synced = Some(true);
    let failure = rig.run(bootstrap(&[])).await.failure();
    assert!(failure.contains("Proxmox does not list its VMs"), "{failure}");
    assert_eq!(node.facts().bootstraps, 0);
}

/// On real nodes a second request stops the etcd that the first request is starting, and its image is never pulled.
#[tokio::test]
async fn an_accepted_bootstrap_is_not_repeated_while_the_image_is_pulled() {
    let mut rig = Rig::with_proxmox("");
    let node = rig
        .node(FIRST, |facts| {
            facts.is_configured = true;
            facts.bootstrapped = Etcd::Pulling;
        })
        .await;
    let (later, clock) = (node.clone(), rig.clock);
    tokio::spawn(async move {
        clock.sleep(Duration::from_secs(30)).await;
        later.facts().etcd = Etcd::Member;
    });
    let report = rig.run(bootstrap(&[])).await;
    assert!(matches!(report.result, StepResult::Done), "{:?}", report.result);
    assert_eq!(report.waits, [STARTING.to_owned(), line(PULLING)]);
    assert_eq!(node.facts().bootstraps, 1);
}

/// Talos keeps the bootstrap request in memory only, so a reboot loses it.
#[tokio::test]
async fn a_bootstrap_that_a_reboot_lost_is_repeated() {
    let mut rig = Rig::with_proxmox("");
    let node = rig
        .node(FIRST, |facts| {
            facts.is_configured = true;
            facts.bootstrapped = Etcd::Pulling;
        })
        .await;
    let (later, clock) = (node.clone(), rig.clock);
    tokio::spawn(async move {
        clock.sleep(Duration::from_secs(30)).await;
        let mut facts = later.facts();
        (facts.etcd, facts.bootstrapped) = (Etcd::Nothing, Etcd::Member);
        "2".clone_into(&mut facts.boot_id);
    });
    let report = rig.run(bootstrap(&[])).await;
    assert!(matches!(report.result, StepResult::Done), "{:?}", report.result);
    assert_eq!(node.facts().bootstraps, 2);
}

/// An earlier run sent the request, and was killed before the answer came.
#[tokio::test]
async fn a_bootstrap_that_an_earlier_run_sent_is_not_repeated() {
    let mut rig = Rig::with_proxmox("");
    let node = rig
        .node(FIRST, |facts| {
            facts.is_configured = true;
            facts.etcd = Etcd::Pulling;
            facts.requested_in = Some(facts.boot_id.clone());
        })
        .await;
    let (later, clock) = (node.clone(), rig.clock);
    tokio::spawn(async move {
        clock.sleep(Duration::from_secs(30)).await;
        later.facts().etcd = Etcd::Member;
    });
    let report = rig.run(bootstrap(&[])).await;
    assert!(matches!(report.result, StepResult::Already), "{:?}", report.result);
    assert_eq!(report.waits, [line(PULLING)]);
    assert_eq!(node.facts().bootstraps, 0);
}

/// Talos does not restart an etcd that failed before it ran.
#[tokio::test]
async fn a_bootstrap_whose_etcd_failed_is_repeated() {
    let mut rig = Rig::with_proxmox("");
    let node = rig
        .node(FIRST, |facts| {
            facts.is_configured = true;
            facts.requested_in = Some(facts.boot_id.clone());
            facts.etcd = Etcd::Failed;
        })
        .await;
    let report = rig.run(bootstrap(&[])).await;
    assert!(matches!(report.result, StepResult::Done), "{:?}", report.result);
    assert_eq!(node.facts().bootstraps, 1);
}

#[tokio::test]
async fn an_etcd_that_runs_without_answering_is_never_bootstrapped() {
    let mut rig = Rig::with_proxmox("");
    let node = rig
        .node(FIRST, |facts| {
            facts.is_configured = true;
            facts.etcd = Etcd::Silent;
        })
        .await;
    let report = rig.run(bootstrap(&[])).await;
    let failure = report.failure();
    assert_eq!(failure, "etcd does not come up on cp-11 in time: etcd does not answer yet");
    assert_eq!(node.facts().bootstraps, 0);
}

#[tokio::test]
async fn existing_data_is_waited_for_and_not_bootstrapped() {
    let mut rig = Rig::with_proxmox("");
    let node = rig
        .node(FIRST, |facts| {
            facts.is_configured = true;
            facts.etcd = Etcd::Data;
        })
        .await;
    let later = node.clone();
    let clock = rig.clock;
    tokio::spawn(async move {
        clock.sleep(Duration::from_secs(20)).await;
        later.facts().etcd = Etcd::Member;
    });
    let report = rig.run(bootstrap(&[])).await;
    assert!(matches!(report.result, StepResult::Already), "{:?}", report.result);
    assert_eq!(report.waits, [line("etcd has data and does not run yet")]);
    assert_eq!(node.facts().bootstraps, 0);
}

#[tokio::test]
async fn another_member_prevents_a_bootstrap() {
    for etcd in [Etcd::Member, Etcd::Data, Etcd::Silent] {
        let mut rig = Rig::with_proxmox("");
        let first = rig.node(FIRST, |facts| facts.is_configured = true).await;
        rig.node(OTHER, |facts| {
            facts.is_configured = true;
            facts.etcd = etcd;
        })
        .await;
        let report = rig.run(bootstrap(&[Evidence::Answer])).await;
        let failure = report.failure();
        assert!(failure.starts_with("etcd is not bootstrapped: cp-12 "), "{failure}");
        assert_eq!(first.facts().bootstraps, 0);
    }
}

#[tokio::test]
async fn a_node_that_answers_without_data_does_not_prevent_a_bootstrap() {
    for is_configured in [true, false] {
        let mut rig = Rig::with_proxmox("");
        let first = rig.node(FIRST, |facts| facts.is_configured = true).await;
        rig.node(OTHER, |facts| facts.is_configured = is_configured).await;
        let report = rig.run(bootstrap(&[Evidence::Answer])).await;
        assert!(matches!(report.result, StepResult::Done), "{:?}", report.result);
        assert_eq!(first.facts().bootstraps, 1);
    }
}

#[tokio::test]
async fn another_machine_at_the_address_is_not_evidence() {
    for is_configured in [true, false] {
        let mut rig = Rig::with_proxmox("");
        let first = rig.node(FIRST, |facts| facts.is_configured = true).await;
        rig.node(OTHER, |facts| {
            facts.is_configured = is_configured;
            facts.uuid = FOREIGN_UUID.to_owned();
        })
        .await;
        let report = rig.run(bootstrap(&[Evidence::Answer])).await;
        let failure = report.failure();
        assert!(failure.contains("cp-12 was created earlier and may have etcd data"), "{failure}");
        let why =
            format!("another machine answers at 10.0.0.12: its SMBIOS UUID is {FOREIGN_UUID}");
        assert!(failure.contains(&why), "{failure}");
        assert_eq!(first.facts().bootstraps, 0);
    }
}

#[tokio::test]
async fn a_node_at_the_address_of_another_one_is_not_bootstrapped() {
    let mut rig = Rig::with_proxmox("");
    let other = rig
        .node(FIRST, |facts| {
            facts.is_configured = true;
            facts.uuid = FOREIGN_UUID.to_owned();
        })
        .await;
    let failure = rig.run(bootstrap(&[])).await.failure();
    assert!(
        failure.starts_with("the machine at 10.0.0.11 is not the VM 300 of cp-11: "),
        "{failure}"
    );
    assert_eq!(other.facts().bootstraps, 0);
}

#[tokio::test]
async fn an_unreachable_node_that_may_have_data_prevents_a_bootstrap() {
    let mut rig = Rig::with_proxmox("");
    let first = rig.node(FIRST, |facts| facts.is_configured = true).await;
    let _closed = rig.lead_nowhere(OTHER);
    let report = rig.run(bootstrap(&[Evidence::Answer])).await;
    let failure = report.failure();
    assert!(failure.contains("cp-12 was created earlier and may have etcd data"), "{failure}");
    assert_eq!(first.facts().bootstraps, 0);
    // A VM with a fresh disk cannot have etcd data.
    let report = rig.run(bootstrap(&[Evidence::FreshDisk])).await;
    assert!(matches!(report.result, StepResult::Done), "{:?}", report.result);
}

/// A VM of this cluster that has another name, vmid and address than all nodes of the inventory.
#[tokio::test]
async fn a_vm_that_is_not_in_the_inventory_is_queried() {
    let by_notes = other_vm(&marker(Stage::Made), "");
    let by_tags = other_vm("", "talmox;home");
    for vm in [by_notes, by_tags] {
        for (etcd, said) in [
            (Etcd::Member, "is already a member of it"),
            (Etcd::Data, "has etcd data, and etcd does not run there"),
        ] {
            let mut rig = Rig::with_proxmox(&vm);
            let first = rig.node(FIRST, |facts| facts.is_configured = true).await;
            rig.node(OTHER, |facts| {
                facts.is_configured = true;
                facts.etcd = etcd;
            })
            .await;
            let failure = rig.run(bootstrap(&[])).await.failure();
            assert!(
                failure.starts_with("etcd is not bootstrapped: ") && failure.contains(said),
                "{failure}"
            );
            assert_eq!(first.facts().bootstraps, 0);
        }
        // A VM without etcd data does not prevent the bootstrap.
        let mut rig = Rig::with_proxmox(&vm);
        let first = rig.node(FIRST, |facts| facts.is_configured = true).await;
        rig.node(OTHER, |facts| facts.is_configured = true).await;
        let report = rig.run(bootstrap(&[])).await;
        assert!(matches!(report.result, StepResult::Done), "{:?}", report.result);
        assert_eq!(first.facts().bootstraps, 1);
    }
}

/// The notes of the VM were replaced and its name was changed. A config on a volume leaves no address. So only its tags or
/// its UUID show that it belongs to the cluster.
#[tokio::test]
async fn an_unidentified_vm_prevents_a_bootstrap() {
    let bare = |tags: &str| {
        let vm = other_vm("web server", tags).replace(UUID, DERIVED);
        vm.replace(&format!("      ipconfig0: ip={OTHER}/24\n"), "")
    };
    for (vm, sign, release) in [
        (
            bare("talmox;home"),
            "VM 777 (renamed) on pve1 has the tags talmox and home, and no valid marker in its notes",
            "remove the tags talmox and home from it",
        ),
        (
            bare(""),
            "VM 777 (renamed) on pve1 has a UUID such as talmox derives, is in a pool of home",
            "remove it from the pool",
        ),
    ] {
        assert!(!vm.contains("ipconfig0") && vm.contains(DERIVED), "{vm}");
        for status in ["running", "stopped"] {
            let vm = vm.replace("status: running", &format!("status: {status}"));
            let pool = "pools:\n  - {poolid: talos, vms: [300, 777]}\n";
            let mut rig = Rig::with_proxmox(&format!("{vm}{pool}"));
            let first = rig.node(FIRST, |facts| facts.is_configured = true).await;
            let report = rig.run(bootstrap(&[])).await;
            let failure = report.failure();
            assert!(failure.starts_with("etcd is not bootstrapped: "), "{failure}");
            assert!(failure.contains(sign), "{failure}");
            assert!(report.hint().contains(release), "{}", report.hint());
            assert!(report.hint().contains("node=NAME stage=made"), "{}", report.hint());
            assert_eq!(first.facts().bootstraps, 0);
        }
    }
    // A derived UUID alone, outside of the pool, is not a sign of the cluster.
    let mut rig = Rig::with_proxmox(&bare(""));
    let first = rig.node(FIRST, |facts| facts.is_configured = true).await;
    let report = rig.run(bootstrap(&[])).await;
    assert!(matches!(report.result, StepResult::Done), "{:?}", report.result);
    assert_eq!(first.facts().bootstraps, 1);
}

#[tokio::test]
async fn an_unreachable_or_unreadable_vm_of_the_cluster_prevents_a_bootstrap() {
    let mut rig = Rig::with_proxmox(&other_vm(&marker(Stage::Made), ""));
    let first = rig.node(FIRST, |facts| facts.is_configured = true).await;
    let _closed = rig.lead_nowhere(OTHER);
    let report = rig.run(bootstrap(&[])).await;
    let failure = report.failure();
    assert!(failure.contains("old-cp was created earlier and may have etcd data"), "{failure}");
    assert!(!report.hint().contains("destroy"), "{}", report.hint());
    assert_eq!(first.facts().bootstraps, 0);

    let mut rig = Rig::with_proxmox(&other_vm("", "talmox;home"));
    let first = rig.node(FIRST, |facts| facts.is_configured = true).await;
    let message = "got no worker upid".to_owned();
    let broken = FaultAction::Reject { status: 500, message };
    inject_fault(rig.lab(), "GET", "/nodes/{node}/qemu/{vmid}/config", u64::MAX, broken);
    let failure = rig.run(bootstrap(&[])).await.failure();
    assert!(failure.contains("cannot be read: VM 777 (renamed) on pve1"), "{failure}");
    assert_eq!(first.facts().bootstraps, 0);
}

/// The node is a worker in the inventory. Only the notes show the role that the VM was created with.
#[tokio::test]
async fn a_former_control_plane_is_queried() {
    let moved = || {
        let Action::BootstrapEtcd(mut step) = bootstrap(&[]) else { unreachable!() };
        step.signs.nodes.push(NodeSign {
            name: "old-cp".to_owned(),
            uuid: UUID.to_owned(),
            vmid: VmId::new(777).unwrap(),
            has_etcd: false,
        });
        Action::BootstrapEtcd(step)
    };
    // A VM whose notes do not show its first role may have been a control plane.
    for first_role in [Some(FirstRole::ControlPlane), None] {
        for status in ["running", "stopped"] {
            let vm = other_vm(&noted(Stage::Made, first_role), "");
            let vm = vm.replace("status: running", &format!("status: {status}"));
            let mut rig = Rig::with_proxmox(&vm);
            let first = rig.node(FIRST, |facts| facts.is_configured = true).await;
            let _closed = rig.lead_nowhere(OTHER);
            let report = rig.run(moved()).await;
            let failure = report.failure();
            assert!(
                failure.contains("old-cp was created earlier and may have etcd data"),
                "{failure}"
            );
            let says_how = report.hint().contains("role=worker");
            assert_eq!(says_how, first_role.is_none(), "{}", report.hint());
            assert_eq!(first.facts().bootstraps, 0);
        }
    }
    // A configured worker cannot answer before the cluster exists.
    let mut rig = Rig::with_proxmox(&other_vm(&noted(Stage::Made, Some(FirstRole::Worker)), ""));
    let first = rig.node(FIRST, |facts| facts.is_configured = true).await;
    let _closed = rig.lead_nowhere(OTHER);
    let report = rig.run(moved()).await;
    assert!(matches!(report.result, StepResult::Done), "{:?}", report.result);
    assert_eq!(first.facts().bootstraps, 1);
}

/// Without an answer of Proxmox, it is unknown whether another VM exists.
#[tokio::test]
async fn an_unreachable_proxmox_prevents_a_bootstrap() {
    let mut rig = Rig::new();
    let first = rig.node(FIRST, |facts| facts.is_configured = true).await;
    let failure = rig.run(bootstrap(&[])).await.failure();
    assert!(failure.contains("Proxmox does not list its VMs"), "{failure}");
    assert_eq!(first.facts().bootstraps, 0);
}

/// Foreign VMs, templates, and VMs that were never started have no data of this cluster.
#[tokio::test]
async fn vms_that_cannot_have_data_are_not_queried() {
    let foreign =
        Marker { cluster: ClusterMark::of("another"), ..marker(Stage::Made).parse().unwrap() };
    for vm in [
        other_vm("somebody's", ""),
        other_vm(&foreign.to_string(), "talmox;other"),
        other_vm(&marker(Stage::Create), "").replace("status: running", "status: stopped"),
        other_vm(&marker(Stage::Made), "")
            .replace("      name:", "      template: 1\n      name:")
            .replace("status: running", "status: stopped"),
    ] {
        let mut rig = Rig::with_proxmox(&vm);
        let first = rig.node(FIRST, |facts| facts.is_configured = true).await;
        let _closed = rig.lead_nowhere(OTHER);
        let report = rig.run(bootstrap(&[])).await;
        assert!(matches!(report.result, StepResult::Done), "{:?}\n{vm}", report.result);
        assert_eq!(first.facts().bootstraps, 1);
    }
}

/// A member answers at the shared address, or at an address in older client files.
#[tokio::test]
async fn a_member_at_an_address_of_the_cluster_prevents_a_bootstrap() {
    for at in ["10.0.0.20", "10.9.9.9"] {
        let mut rig = Rig::with_proxmox("");
        rig.earlier = vec!["10.9.9.9".parse().unwrap()];
        let first = rig.node(FIRST, |facts| facts.is_configured = true).await;
        let _closed = rig.lead_nowhere(if at == "10.0.0.20" { "10.9.9.9" } else { "10.0.0.20" });
        rig.node(at, |facts| {
            facts.is_configured = true;
            facts.etcd = Etcd::Member;
        })
        .await;
        let failure = rig.run(bootstrap(&[])).await.failure();
        let said = format!("etcd is not bootstrapped: the node at {at} is already a member of it");
        assert_eq!(failure, said);
        assert_eq!(first.facts().bootstraps, 0);
    }
}
