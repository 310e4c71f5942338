//! Node objects of machines that a user deleted together with their entry in the inventory.

use std::time::Duration;

use talmox_plan::plan::{Class, Left, show};
use talmox_plan::planning::{RemovalConsent, Scope};

use super::inventory::HEAD;
use super::rig::Rig;

const NODES: &str = "
controlplane:
  - {name: cp-1, ip: 10.0.0.11, vmid: 300}
workers:
  - {name: wk-1, ip: 10.0.0.21, vmid: 301}
";
const WK_2: u32 = 302;

fn is_listed(rig: &Rig, name: &str) -> bool {
    rig.lab.kubernetes_stores().remove(0).get("nodes", "", name).is_some()
}

/// Waits until Kubernetes reports the node as not ready.
async fn until_unready(rig: &Rig, text: &str, name: &str) {
    let kube = rig.kube(text);
    loop {
        let nodes = kube.nodes().await.unwrap();
        if nodes.iter().any(|node| node.name == name && !node.is_ready) {
            return;
        }
        rig.lab.clock().sleep(Duration::from_secs(5)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_node_object_of_a_deleted_machine_is_deleted_with_consent() {
    let rig = Rig::start();
    let small = format!("{HEAD}{NODES}");
    let large = format!("{small}  - {{name: wk-2, ip: 10.0.0.22, vmid: {WK_2}}}\n");
    rig.converge(&large).await;
    rig.delete_vm(WK_2).await;
    until_unready(&rig, &large, "wk-2").await;

    let plan = rig.plan(&small).await;
    let change = plan.changes.iter().find(|change| change.object.to_string() == "node wk-2");
    let change = change.unwrap_or_else(|| panic!("{}", show::text(&plan)));
    assert_eq!((change.class, change.left), (Class::Destroy, Some(Left::NeedsConsent)));
    assert!(plan.steps.iter().all(|step| step.id.as_str() != "node/wk-2/delete"));
    assert!(is_listed(&rig, "wk-2"));

    let scope = Scope { removal: RemovalConsent::All, ..Scope::default() };
    rig.up_within(&small, &scope).await.assert_done();
    assert!(!is_listed(&rig, "wk-2") && is_listed(&rig, "wk-1"));
    rig.assert_converged(&small).await;
}
