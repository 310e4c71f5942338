//! Nodes that answer and cannot join with their config: a corrected inventory repairs them.

use super::inventory::{HEAD, with_short_timeouts};
use super::rig::{CompletedRun, Rig};

/// One control plane with this gateway and boot way.
fn with_gateway(gateway: &str, boot: &str) -> String {
    let head = HEAD.replace("gateway: 10.0.0.1,", &format!("gateway: {gateway},"));
    with_short_timeouts(&format!(
        "{head}boot: {boot}\ncontrolplane:\n  - {{name: cp-1, ip: 10.0.0.11}}\n"
    ))
}

/// The steps of a run, in the order of the plan.
fn steps(ran: &CompletedRun) -> Vec<&str> {
    ran.plan.steps.iter().map(|step| step.id.as_str()).collect()
}

/// Without a gateway, the node gets no time and no images, so etcd does not start and the bootstrap does not end.
#[tokio::test(flavor = "multi_thread")]
async fn a_corrected_gateway_reaches_a_control_plane_that_waits_for_its_bootstrap() {
    let rig = Rig::start();
    let failures = rig.up(&with_gateway("10.0.0.254", "cloudinit")).await.failures();
    assert!(failures.contains("etcd does not come up on cp-1 in time"), "{failures}");
    let uuid = rig.vms().await[&300].config["smbios1"].clone();
    let text = with_gateway("10.0.0.1", "cloudinit");
    let ran = rig.converge(&text).await;
    let steps = steps(&ran);
    let at = |id: &str| steps.iter().position(|step| *step == id);
    assert!(at("talos/cp-1/config").is_some(), "{steps:?}");
    assert!(at("talos/cp-1/config") < at("etcd/bootstrap"), "{steps:?}");
    assert_eq!(at("node/cp-1/drain"), None, "{steps:?}");
    assert_eq!(at("vm/cp-1/create"), None, "{steps:?}");
    let lab_state = rig.lab_state(&text).await;
    lab_state.assert_complete(&["cp-1"], &[]);
    assert_eq!(lab_state.vms[&300].config["smbios1"], uuid);
    assert!(lab_state.vms[&300].config["ipconfig0"].contains("gw=10.0.0.1"));
}

/// The wrong gateway is also on the volume of the first boot.
#[tokio::test(flavor = "multi_thread")]
async fn a_control_plane_with_a_volume_boots_with_the_corrected_gateway() {
    let rig = Rig::start();
    let failures = rig.up(&with_gateway("10.0.0.254", "cidata")).await.failures();
    assert!(failures.contains("etcd does not come up on cp-1 in time"), "{failures}");
    let text = with_gateway("10.0.0.1", "cidata");
    let ran = rig.converge(&text).await;
    let steps = steps(&ran);
    let at = |id: &str| steps.iter().position(|step| *step == id);
    assert!(at("vm/cp-1/upload-config").is_some(), "{steps:?}");
    assert!(at("vm/cp-1/start") < at("etcd/bootstrap"), "{steps:?}");
    assert_eq!(at("vm/cp-1/create"), None, "{steps:?}");
    rig.lab_state(&text).await.assert_complete(&["cp-1"], &[]);
}
