//! Tests of `NoExecute` taints.

use serde_json::{Value, json};

use super::cluster::Cluster;

const NODE: &str = "/api/v1/nodes/w-1";

fn pod(name: &str, tolerations: &Value) -> Value {
    json!({
        "metadata": {"name": name, "namespace": "default"},
        "spec": {
            "nodeName": "w-1",
            "tolerations": tolerations,
            "containers": [{"name": "main", "image": "tool:1"}],
        },
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn pods_are_evicted_from_nodes_whose_taints_they_do_not_tolerate() {
    let cluster = Cluster::start_ready(&["w-1"]).await;
    let mut admin = cluster.admin().await;
    let tolerate = |more: Value| {
        let mut one = json!({"key": "repair", "operator": "Exists", "effect": "NoExecute"});
        one.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        json!([one])
    };
    let other = json!([{"key": "repair", "operator": "Equal", "value": "later"}]);
    for (name, tolerations) in [
        ("plain", json!([])),
        ("other", other),
        ("patient", tolerate(json!({"tolerationSeconds": 60}))),
        ("stays", tolerate(json!({}))),
    ] {
        cluster.store.create("pods", pod(name, &tolerations)).unwrap();
        let is_running = |pod: &Value| pod["status"]["phase"] == "Running";
        cluster.until("pods", "default", name, is_running).await;
    }
    let taint = |effect: &str| json!({"spec": {"taints": [{"key": "repair", "value": "now", "effect": effect}]}});
    admin.patch(NODE, "merge-patch+json", &taint("NoSchedule")).await;
    cluster.assert_idle().await;
    assert!(cluster.store.get("pods", "default", "plain").is_some());

    admin.patch(NODE, "merge-patch+json", &taint("NoExecute")).await;
    let started = cluster.now();
    cluster.until_gone("pods", "default", "plain").await;
    cluster.until_gone("pods", "default", "other").await;
    cluster.until_gone("pods", "default", "patient").await;
    let passed = cluster.now().saturating_sub(started);
    assert!(passed.as_secs() >= 59, "it left after {passed:?}");
    cluster.assert_idle().await;
    assert!(cluster.store.get("pods", "default", "stays").is_some());
    let events = admin.get("/api/v1/namespaces/default/events").await.body;
    assert_eq!(events["items"].as_array().unwrap().len(), 3, "{events:#}");
    assert_eq!(events["items"][0]["reason"], "TaintManagerEviction");
}
