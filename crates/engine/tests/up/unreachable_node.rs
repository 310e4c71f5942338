//! Healthy nodes that talmox cannot reach.

use std::sync::Arc;

use talmox_plan::plan::{self, Class, Object, show};

use super::failed_boot::resets;
use super::inventory::{home, pair, short_timeouts, with_short_timeouts};
use super::rig::Rig;

#[tokio::test(flavor = "multi_thread")]
async fn an_unreachable_cluster_is_neither_reset_nor_created() {
    let mut rig = Rig::start();
    let text = with_short_timeouts(&home());
    rig.up(&home()).await.assert_done();
    let before = rig.vms().await.len();
    rig.closed = &["10.0.0."];

    // The VMs run and existed before this run, so they may be healthy. The hint leaves a reset to the user.
    let ran = rig.up(&text).await;
    let failures = ran.failures();
    assert!(failures.contains("cp-1 does not come up: nothing answers"), "{failures}");
    assert!(
        failures.contains("if the node never came up, reset its VM (on pve1: qm reset 300)"),
        "{failures}"
    );
    assert_eq!(resets(&rig).await, 0);

    // The VM of the first control plane is gone, and it is unknown whether a cluster exists.
    rig.delete_vm(300).await;
    let ran = rig.up(&text).await;
    let failures = ran.failures();
    assert!(failures.contains("cp-2 does not come up: nothing answers"), "{failures}");
    assert!(!failures.contains("cp-1"), "no step of it starts: {failures}");
    assert_eq!(rig.vms().await.len(), before - 1, "nothing is made");
    assert_eq!(resets(&rig).await, 0);

    // etcd exists, and its dead member is removed first.
    rig.closed = &[];
    let plan = rig.plan(&home()).await;
    let shown = show::text(&plan);
    assert!(plan.steps.iter().any(|step| step.id.as_str() == "etcd/cp-1/leave"), "{shown}");
    assert!(!shown.contains("bootstrapped on"), "{shown}");
}

/// A fresh clone of the inventory: no client files, no run logs, and no way to the nodes.
#[tokio::test(flavor = "multi_thread")]
async fn a_fresh_clone_that_cannot_reach_its_nodes_resets_stops_and_creates_nothing() {
    let mut rig = Rig::start();
    rig.up(&home()).await.assert_done();
    let before = rig.vms().await;
    rig.files.lock().unwrap().clear();
    rig.closed = &["10.0.0."];
    let text = with_short_timeouts(&home());
    let plan = rig.plan(&text).await;
    let shown = show::text(&plan);
    let is_made = |change: &&plan::Change| {
        matches!(change.object, Object::Vm(_) | Object::Node(_)) && change.class == Class::Create
    };
    assert_eq!(plan.changes.iter().filter(is_made).count(), 0, "{shown}");
    assert!(plan.may_reset().is_empty() && !shown.contains("may reset"), "{shown}");
    let asked = rig.recorded_requests().len();
    let ran = rig.carry_out(plan, &text, None).await;
    assert!(ran.failures().contains("cp-1 does not come up"), "{}", ran.failures());
    let changed: Vec<String> = rig
        .recorded_requests()
        .split_off(asked)
        .into_iter()
        .filter(|call| !call.starts_with("GET"))
        .collect();
    assert_eq!(changed, Vec::<String>::new());
    assert_eq!(resets(&rig).await, 0);
    assert_eq!(rig.vms().await, before);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_kubeconfig_names_the_shared_address_as_soon_as_it_answers() {
    let mut rig = Rig::start();
    rig.closed = &["10.0.0.20"];
    let ran = rig.up(&short_timeouts()).await;
    let failures = ran.failures();
    assert!(failures.starts_with("vip: 10.0.0.20:6443 does not answer"), "{failures}");
    let files = Arc::clone(&rig.files);
    let servers = || -> Vec<bool> {
        let files = files.lock().unwrap();
        let is_shared = |text: &str| text.contains("tls-server-name: 10.0.0.20\n");
        files.iter().map(|made| is_shared(made.kubeconfig.expose())).collect()
    };
    assert_eq!(servers(), [false], "there is one all the same");
    rig.closed = &[];
    rig.up(&pair()).await.assert_done();
    assert_eq!(servers(), [false, true]);
    let plan = rig.plan(&pair()).await;
    assert!(plan.is_empty(), "{}", show::text(&plan));
}
