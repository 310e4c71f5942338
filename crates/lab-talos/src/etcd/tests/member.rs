use std::time::Duration;

use prost::Message as _;
use talmox_talos_api::proto::machine::ServiceStateEvent;
use talmox_talos_config::generate::Role;
use tonic::Code;

use crate::etcd;
use crate::service::ServiceState;
use crate::talos_state::TalosState;
use crate::test_bench::{Bench, new_bundle};

/// Bench with three control planes that form one etcd cluster.
pub(super) async fn three() -> Bench {
    let bench = Bench::new();
    let boot = bench.start_control_plane(11);
    bench.start_control_plane(12);
    bench.start_control_plane(13);
    etcd::bootstrap(&bench.simulation, 11, boot, None).unwrap();
    for vmid in [11, 12, 13] {
        bench.until_healthy(vmid, "etcd").await;
    }
    bench
}

fn member_of(bench: &Bench, vmid: u32) -> u64 {
    bench.simulation.look(|talos| talos.nodes[&vmid].etcd.unwrap().member)
}

#[tokio::test(flavor = "multi_thread")]
async fn further_nodes_join_as_learners_and_become_voters() {
    let bench = three().await;
    let members = bench.simulation.look(|talos| etcd::members(talos, 12)).unwrap();
    assert_eq!(members.len(), 3);
    assert!(members.iter().all(|member| !member.is_learner));
    let mut names: Vec<&str> = members.iter().map(|member| member.hostname.as_str()).collect();
    names.sort_unstable();
    assert_eq!(names, ["node-11", "node-12", "node-13"]);
    let status = bench.simulation.look(|talos| etcd::status(talos, 13)).unwrap();
    assert_eq!(status.leader, member_of(&bench, 11));
    assert!(status.errors.is_empty() && status.raft_index > 4 && status.db_size > 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn bootstrap_is_rejected_when_the_node_is_not_ready_for_it() {
    let bench = Bench::new();
    let boot = bench.start_control_plane(11);
    let rejected = |vmid, boot| etcd::bootstrap(&bench.simulation, vmid, boot, None).unwrap_err();
    bench.simulation.change_node(11, boot, |node| node.is_time_in_sync = false);
    let early = rejected(11, boot);
    assert_eq!(
        (early.code(), early.message()),
        (Code::FailedPrecondition, "time is not in sync yet")
    );
    bench.simulation.change_node(11, boot, |node| node.is_time_in_sync = true);
    bench.simulation.enter(11, boot, "cri", ServiceState::Starting, "");
    let early = rejected(11, boot);
    assert_eq!(early.message(), "bootstrap is not available yet");
    bench.simulation.enter(11, boot, "cri", ServiceState::Running, "");
    // etcd runs, but its health has not been checked yet.
    assert_eq!(rejected(11, boot).message(), "bootstrap is not available yet");
    bench.simulation.set_health(11, boot, "cri", true, "");
    etcd::bootstrap(&bench.simulation, 11, boot, None).unwrap();
    bench.until_healthy(11, "etcd").await;
    let twice = rejected(11, boot);
    assert_eq!(
        (twice.code(), twice.message()),
        (Code::AlreadyExists, "etcd data directory is not empty")
    );
    let worker = bench.start_worker(21);
    let elsewhere = rejected(21, worker);
    let text = "bootstrap can only be performed on a control plane node";
    assert_eq!((elsewhere.code(), elsewhere.message()), (Code::FailedPrecondition, text));
    let newer = crate::version::Version::parse("v1.13.6").unwrap();
    bench.simulation.change_node(21, worker, |node| node.version = newer);
    assert_eq!(rejected(21, worker).code(), Code::Unimplemented);
    bench.kill(11);
    let again = bench.start_control_plane(11);
    assert_eq!(rejected(11, again).code(), Code::AlreadyExists);
}

/// Observed on Talos 1.12.0: a second Bootstrap was accepted 1.8 s after the first request, and the console showed
/// `service[etcd](Finished): Bootstrap requested` twice.
#[tokio::test(flavor = "multi_thread")]
async fn a_bootstrap_is_accepted_again_until_etcd_runs() {
    let bench = Bench::new();
    let boot = bench.start_control_plane(11);
    bench.until("etcd to wait for a cluster", |talos| has_pulled(talos, 11).then_some(())).await;
    let slow = |by| bench.simulation.change_node(11, boot, |node| node.faults.slowness = by);
    slow(Duration::from_hours(1));
    etcd::bootstrap(&bench.simulation, 11, boot, None).unwrap();
    bench
        .until("the first bootstrap request", |talos| (requests(talos, 11) == 1).then_some(()))
        .await;
    etcd::bootstrap(&bench.simulation, 11, boot, None).unwrap();
    bench
        .until("the second bootstrap request", |talos| (requests(talos, 11) == 2).then_some(()))
        .await;
    slow(Duration::ZERO);
    bench.until_healthy(11, "etcd").await;
    assert_eq!(bench.simulation.look(|talos| (requests(talos, 11), talos.etcds.len())), (2, 1));
}

/// The bootstrap request exists only in memory, and no data exists before etcd runs.
#[tokio::test(flavor = "multi_thread")]
async fn a_reboot_loses_a_bootstrap_whose_etcd_has_not_started() {
    let bench = Bench::new();
    let boot = bench.start_control_plane(11);
    etcd::bootstrap(&bench.simulation, 11, boot, None).unwrap();
    bench.kill(11);
    let boot = bench.start_control_plane(11);
    assert_eq!(bench.simulation.look(|talos| (requests(talos, 11), talos.etcds.len())), (0, 0));
    etcd::bootstrap(&bench.simulation, 11, boot, None).unwrap();
    bench.until_healthy(11, "etcd").await;
    assert_eq!(bench.simulation.look(|talos| talos.etcds.len()), 1);
}

/// Whether the node has pulled the image of etcd and waits for a cluster.
fn has_pulled(talos: &TalosState, vmid: u32) -> bool {
    let etcd = talos.nodes.get(&vmid).and_then(|node| node.services.get("etcd"));
    etcd.is_some_and(|etcd| etcd.state == ServiceState::Preparing)
}

/// Number of accepted bootstrap requests in the events of this boot.
fn requests(talos: &TalosState, vmid: u32) -> usize {
    let (past, _) = talos.nodes[&vmid].events.subscribe();
    let data = past.into_iter().filter_map(|(_, event)| event.data);
    let events = data.filter(|data| data.type_url.ends_with(".ServiceStateEvent"));
    let messages = events.map(|data| ServiceStateEvent::decode(data.value.as_slice()).unwrap());
    messages.filter(|event| event.message == "Bootstrap requested").count()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_second_bootstrap_makes_a_second_cluster() {
    let bench = Bench::new();
    let first = bench.start_control_plane(11);
    etcd::bootstrap(&bench.simulation, 11, first, None).unwrap();
    let second = bench.start_control_plane(12);
    etcd::bootstrap(&bench.simulation, 12, second, None).unwrap();
    bench.until_healthy(11, "etcd").await;
    bench.until_healthy(12, "etcd").await;
    let counts = [11, 12]
        .map(|vmid| bench.simulation.look(|talos| etcd::members(talos, vmid)).unwrap().len());
    assert_eq!(counts, [1, 1]);
    assert_eq!(bench.simulation.look(|talos| talos.etcds.len()), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lost_leader_is_replaced_unless_quorum_is_lost() {
    let bench = three().await;
    let term = bench.simulation.look(|talos| etcd::status(talos, 12)).unwrap().raft_term;
    bench.kill(11);
    bench
        .until("another leader", |talos| {
            let status = etcd::status(talos, 12).ok()?;
            (status.leader != 0 && status.raft_term > term).then_some(())
        })
        .await;
    bench.until_healthy(12, "etcd").await;
    bench.kill(12);
    bench
        .until("no quorum", |talos| {
            let status = etcd::status(talos, 13).ok()?;
            (status.leader == 0).then_some(())
        })
        .await;
    let lost = bench.simulation.look(|talos| etcd::members(talos, 13)).unwrap_err();
    assert_eq!((lost.code(), lost.message()), (Code::Unknown, "etcdserver: no leader"));
    let lost = bench.simulation.look(|talos| etcd::alarms(talos, 13)).unwrap_err();
    let text = "failed to list etcd alarms: etcdserver: request timed out";
    assert_eq!((lost.code(), lost.message()), (Code::Unknown, text));
    bench.start_control_plane(12);
    bench.until_healthy(13, "etcd").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_partitioned_member_loses_the_leader() {
    let bench = three().await;
    bench.simulation.change(|talos| talos.add_partition(vec![vec!["node-11".to_owned()]]));
    bench
        .until("a majority without the old leader", |talos| {
            let one = etcd::status(talos, 11).ok()?;
            let other = etcd::status(talos, 12).ok()?;
            (one.leader == 0 && other.leader != 0).then_some(())
        })
        .await;
    bench.simulation.change(|talos| talos.partitions.clear());
    bench.until_healthy(11, "etcd").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_removed_member_cannot_rejoin_with_its_old_data() {
    let bench = three().await;
    let gone = member_of(&bench, 13);
    etcd::remove(&bench.simulation, 11, gone).unwrap();
    let twice = etcd::remove(&bench.simulation, 11, gone).unwrap_err();
    let text = format!("failed to remove member {gone}: etcdserver: member not found");
    assert_eq!((twice.code(), twice.message()), (Code::NotFound, text.as_str()));
    let failed = |talos: &crate::talos_state::TalosState| {
        let service = talos.nodes.get(&13)?.services.get("etcd")?;
        (service.state == ServiceState::Failed).then_some(())
    };
    bench.until("etcd to fail", failed).await;
    bench.kill(13);
    bench.start_control_plane(13);
    bench.until("etcd to fail", failed).await;
    assert!(bench.last_message(13, "etcd").contains("permanently removed"));
    bench.kill(13);
    bench.wipe(13);
    bench.start_control_plane(13);
    bench.until_healthy(13, "etcd").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wiped_node_waits_until_its_old_member_is_removed() {
    let bench = three().await;
    let old = member_of(&bench, 13);
    bench.kill(13);
    bench.wipe(13);
    bench.start_control_plane(13);
    bench
        .until("the node to find its former member", |talos| {
            let last = talos.nodes.get(&13)?.services.get("etcd")?.events.back()?;
            last.message.contains("has already been bootstrapped").then_some(())
        })
        .await;
    etcd::remove(&bench.simulation, 11, old).unwrap();
    bench.until_healthy(13, "etcd").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_member_forfeits_leadership_and_leaves() {
    let bench = three().await;
    let next = etcd::forfeit(&bench.simulation, 11).unwrap();
    assert!(matches!(next.as_deref(), Some("node-12" | "node-13")), "{next:?}");
    assert_eq!(etcd::forfeit(&bench.simulation, 11).unwrap(), None);
    let boot = bench.simulation.look(|talos| talos.nodes[&11].boot);
    etcd::leave(&bench.simulation, 11, boot).unwrap();
    assert_eq!(bench.simulation.look(|talos| etcd::members(talos, 12)).unwrap().len(), 2);
    bench
        .until("the service to finish", |talos| {
            let service = talos.nodes.get(&11)?.services.get("etcd")?;
            (service.state == ServiceState::Finished).then_some(())
        })
        .await;
    // In a cluster with two members, no member may leave while the other member is down.
    bench.kill(12);
    let has_lost = |talos: &crate::talos_state::TalosState| {
        etcd::status(talos, 13).ok().filter(|status| status.leader == 0).map(drop)
    };
    bench.until("the loss of the other member", has_lost).await;
    let own = member_of(&bench, 13);
    let alone = etcd::remove(&bench.simulation, 13, own).unwrap_err();
    let text =
        format!("failed to remove member: failed to remove member {own}: etcdserver: no leader");
    assert_eq!((alone.code(), alone.message()), (Code::Unknown, text.as_str()));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_last_member_cannot_leave() {
    let bench = Bench::new();
    let boot = bench.start_control_plane(11);
    let early = bench.simulation.look(|talos| etcd::status(talos, 11)).unwrap_err();
    let begin = "failed to query etcd status: rpc error: code = Unavailable desc = connection";
    assert!(early.code() == Code::Unavailable && early.message().starts_with(begin), "{early}");
    etcd::bootstrap(&bench.simulation, 11, boot, None).unwrap();
    bench.until_healthy(11, "etcd").await;
    let last = etcd::leave(&bench.simulation, 11, boot).unwrap_err();
    let text = format!(
        "failed to leave cluster: 1 error(s) occurred:\n\tfailed to remove member {}: etcdserver: \
         re-configuration failed due to not enough started members",
        member_of(&bench, 11)
    );
    assert_eq!((last.code(), last.message()), (Code::Unknown, text.as_str()));
    let only = etcd::forfeit(&bench.simulation, 11).unwrap_err();
    let text = "failed to forfeit leadership: cannot forfeit leadership, only one member";
    assert_eq!((only.code(), only.message()), (Code::Unknown, text));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_snapshot_is_rejected_before_cri_is_healthy() {
    let bench = Bench::new();
    let boot = bench.start_control_plane(11);
    bench.simulation.change_node(11, boot, |node| node.services.clear());
    let early = etcd::recover(&bench.simulation, 11, boot, vec![]).unwrap_err();
    let text = "etcd service is not ready for recovery yet";
    assert_eq!((early.code(), early.message()), (Code::FailedPrecondition, text));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_with_another_etcd_ca_cannot_join() {
    let bench = Bench::new();
    let boot = bench.start_control_plane(11);
    etcd::bootstrap(&bench.simulation, 11, boot, None).unwrap();
    bench.until_healthy(11, "etcd").await;
    let other = new_bundle();
    let config = bench.config(&bench.bundle, Role::ControlPlane, |facts| {
        facts.etcd_ca = Some(other.certs.etcd.authority().unwrap().certificate.to_pem());
    });
    bench.start(12, config);
    bench
        .until("etcd to report the reason", |talos| {
            let last = talos.nodes.get(&12)?.services.get("etcd")?.events.back()?;
            last.message.contains("signed by unknown authority").then_some(())
        })
        .await;
    assert_eq!(bench.simulation.look(|talos| etcd::members(talos, 11)).unwrap().len(), 1);
}
