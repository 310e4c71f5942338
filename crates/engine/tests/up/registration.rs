//! Node objects that a user deleted. `up` restarts the kubelet of the node, which then registers the node again.

use std::net::IpAddr;

use talmox_lab::FaultScript as _;
use talmox_lab::pve::Fault;
use talmox_plan::plan::{Class, FindingCode, show};

use super::inventory::{home, pair};
use super::rig::Rig;

async fn boot_id(rig: &Rig, last: u8) -> String {
    rig.talos(IpAddr::from([10, 0, 0, last])).boot_id().await.unwrap()
}

/// The uid of a Node object in the lab. None if the lab has no such object.
fn uid(rig: &Rig, name: &str) -> Option<String> {
    let node = rig.lab.kubernetes_stores().remove(0).get("nodes", "", name)?;
    Some(node["metadata"]["uid"].as_str().unwrap().to_owned())
}

async fn delete(rig: &Rig, text: &str, name: &str) {
    rig.kube(text).delete_node(name).await.unwrap();
    assert_eq!(uid(rig, name), None);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deleted_node_object_returns_without_a_reboot() {
    let (rig, text) = (Rig::start(), pair());
    rig.converge(&text).await;
    let (before, boot) = (uid(&rig, "wk-1").unwrap(), boot_id(&rig, 21).await);
    delete(&rig, &text, "wk-1").await;

    let plan = rig.plan(&text).await;
    let changes: Vec<_> =
        plan.changes.iter().filter(|change| change.object.to_string() == "node wk-1").collect();
    let [change] = changes.as_slice() else { panic!("{}", show::text(&plan)) };
    assert_eq!((change.class, change.is_planned), (Class::Live, true));
    let is_about_it = |code: FindingCode, subject: &str| {
        code == FindingCode::NodeUnregistered && subject == "wk-1"
    };
    assert!(plan.findings.iter().any(|finding| is_about_it(finding.code, &finding.subject)));

    rig.converge(&text).await;
    assert!(uid(&rig, "wk-1").is_some_and(|after| after != before));
    assert_eq!(boot_id(&rig, 21).await, boot);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_rejects_the_restart_of_its_kubelet_is_rebooted() {
    let (rig, text) = (Rig::start(), home());
    rig.converge(&text).await;
    let boots = (boot_id(&rig, 12).await, boot_id(&rig, 21).await);
    delete(&rig, &text, "cp-2").await;
    delete(&rig, &text, "wk-1").await;
    let script = "faults:\n  - {talos: ServiceRestart, node: wk-1, refuse: {code: Unimplemented, message: no}}\n";
    for fault in Fault::parse("faults.yaml", script).unwrap() {
        rig.lab.faults().add(fault);
    }

    let ran = rig.converge(&text).await;
    assert!(uid(&rig, "cp-2").is_some() && uid(&rig, "wk-1").is_some());
    assert_eq!(boot_id(&rig, 12).await, boots.0);
    assert_ne!(boot_id(&rig, 21).await, boots.1);
    let notes = ran.notes();
    assert!(notes.iter().any(|note| note.contains("wk-1 rejected the restart")), "{notes:?}");
}
