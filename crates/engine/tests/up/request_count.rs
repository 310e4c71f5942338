//! Number of requests to Proxmox, without reads of tasks.

use talmox_lab::pve::Action as FaultAction;

use super::inventory::home;
use super::rig::Rig;
use super::test_cluster::TestCluster;

#[tokio::test(flavor = "multi_thread")]
async fn proxmox_gets_no_unnecessary_requests() {
    let rig = Rig::start();
    rig.up(&home()).await.assert_done();
    let fresh = rig.recorded_requests();
    // One of the requests to each of the two hosts lists the tasks of the token, to find VMs that the token cannot see.
    assert!(fresh.len() <= 52, "{} requests:\n{}", fresh.len(), fresh.join("\n"));
    let plan = rig.plan(&home()).await;
    assert!(plan.is_empty());
    let all = rig.recorded_requests();
    let again = &all[fresh.len()..];
    assert!(again.len() <= 5 + 6, "{} requests:\n{}", again.len(), again.join("\n"));
}

/// Only the guest agent of a machine that was started within the last hour shows whether its first boot has ended. An earlier
/// run may not have waited for that. Only the agents of the youngest machines are queried, within the limit of requests,
/// because their answers are enough for the older machines.
#[tokio::test(flavor = "multi_thread")]
async fn few_machines_of_another_system_are_queried_unless_one_is_silent() {
    let test_cluster = TestCluster::many_others();
    let rig = test_cluster.lab().await;
    rig.up(&test_cluster.text).await.assert_done();
    let before = rig.recorded_requests().len();
    let plan = rig.plan(&test_cluster.text).await;
    assert!(plan.is_empty());
    let all = rig.recorded_requests();
    let again = &all[before..];
    let agents = again.iter().filter(|asked| asked.contains("/agent/")).count();
    assert!((1..test_cluster.others.len()).contains(&agents), "{}", again.join("\n"));
    let machines =
        test_cluster.control_planes.len() + test_cluster.workers.len() + test_cluster.others.len();
    // One request to each of the two hosts lists the uploads that an earlier run may have left.
    assert!(again.len() <= machines + 8, "{} requests:\n{}", again.len(), again.join("\n"));

    let message = "QEMU guest agent is not running".to_owned();
    let reject = FaultAction::Reject { status: 500, message };
    rig.inject_fault("POST", "/nodes/{node}/qemu/{vmid}/agent/ping", u64::MAX, reject);
    let plan = rig.plan(&test_cluster.text).await;
    let awaited: Vec<&str> = plan.steps.iter().filter_map(|step| step.node.as_deref()).collect();
    assert_eq!(awaited, test_cluster.others);
}
