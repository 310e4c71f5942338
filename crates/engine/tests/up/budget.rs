//! Number of requests to Proxmox, without reads of tasks.

use talmox_lab::pve::Action as FaultAction;

use super::inventory::home;
use super::rig::Rig;
use super::way::Way;

#[tokio::test(flavor = "multi_thread")]
async fn proxmox_is_not_asked_more_than_it_must_be() {
    let rig = Rig::start();
    rig.up(&home()).await.assert_done();
    let fresh = rig.asked();
    assert!(fresh.len() <= 50, "{} requests:\n{}", fresh.len(), fresh.join("\n"));
    let plan = rig.plan(&home()).await;
    assert!(plan.is_empty());
    let all = rig.asked();
    let again = &all[fresh.len()..];
    assert!(again.len() <= 5 + 6, "{} requests:\n{}", again.len(), again.join("\n"));
}

/// Only the guest agent of a machine that was started within the last hour shows whether its first boot has ended. An earlier
/// run may not have waited for that. Only the agents of the youngest machines are queried, within the limit of requests,
/// because their answers are enough for the older machines.
#[tokio::test(flavor = "multi_thread")]
async fn of_machines_of_another_system_a_few_are_asked_unless_one_is_silent() {
    let way = Way::many_others();
    let rig = way.lab().await;
    rig.up(&way.text).await.assert_done();
    let before = rig.asked().len();
    let plan = rig.plan(&way.text).await;
    assert!(plan.is_empty());
    let all = rig.asked();
    let again = &all[before..];
    let agents = again.iter().filter(|asked| asked.contains("/agent/")).count();
    assert!((1..way.others.len()).contains(&agents), "{}", again.join("\n"));
    let machines = way.control_planes.len() + way.workers.len() + way.others.len();
    assert!(again.len() <= machines + 6, "{} requests:\n{}", again.len(), again.join("\n"));

    let message = "QEMU guest agent is not running".to_owned();
    let refuse = FaultAction::Refuse { status: 500, message };
    rig.strike("POST", "/nodes/{node}/qemu/{vmid}/agent/ping", u64::MAX, refuse);
    let plan = rig.plan(&way.text).await;
    let awaited: Vec<&str> = plan.steps.iter().filter_map(|step| step.node.as_deref()).collect();
    assert_eq!(awaited, way.others);
}
