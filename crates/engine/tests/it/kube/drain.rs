use serde_json::json;
use talmox_clock::WaitError;
use talmox_engine::kube::DrainError;
use talmox_plan::manifest::read_manifests;

use super::cluster::Cluster;

const APP: &str = "\
apiVersion: apps/v1
kind: Deployment
metadata: {name: app, namespace: default}
spec:
  replicas: 4
  selector: {matchLabels: {app: app}}
  template:
    metadata: {labels: {app: app}}
    spec: {containers: [{name: main, image: app:1}]}
";

fn pods_on(store: &talmox_lab::kube::KubeStore, node: &str) -> usize {
    let here = |pod: &serde_json::Value| pod["spec"]["nodeName"] == node;
    store.list("pods").iter().filter(|pod| here(pod)).count()
}

#[tokio::test]
async fn a_drained_node_keeps_what_belongs_to_it_only() {
    let cluster = Cluster::start_ready(&["worker-1", "worker-2"]).await;
    let admin = cluster.admin();
    let manifests = read_manifests("app.yaml", APP).unwrap();
    admin.apply(&manifests, &mut cluster.wait(10)).await.unwrap();
    admin.await_rollout(&manifests, &mut cluster.wait(10)).await.unwrap();
    assert!(pods_on(&cluster.store, "worker-1") > 1);
    admin.drain("worker-1", &mut cluster.wait(10)).await.unwrap();
    // The pod of flannel.
    assert_eq!(pods_on(&cluster.store, "worker-1"), 1);
    admin.await_rollout(&manifests, &mut cluster.wait(10)).await.unwrap();
    let node = cluster.store.get("nodes", "", "worker-1").unwrap();
    assert_eq!(node["spec"]["unschedulable"], true);
    admin.uncordon("worker-1").await.unwrap();
    let nodes = admin.nodes().await.unwrap();
    assert!(nodes.iter().all(|node| node.is_schedulable));
}

#[tokio::test]
async fn a_budget_that_allows_nothing_is_the_reason() {
    let cluster = Cluster::start_ready(&["worker-1"]).await;
    let admin = cluster.admin();
    let manifests = read_manifests("app.yaml", APP).unwrap();
    admin.apply(&manifests, &mut cluster.wait(10)).await.unwrap();
    admin.await_rollout(&manifests, &mut cluster.wait(10)).await.unwrap();
    let budget = json!({
        "metadata": {"name": "app", "namespace": "default"},
        "spec": {"minAvailable": 4, "selector": {"matchLabels": {"app": "app"}}},
    });
    cluster.store.create("poddisruptionbudgets.policy", budget).unwrap();
    cluster
        .until(|store| {
            let found = store.get("poddisruptionbudgets.policy", "default", "app").unwrap();
            found["status"]["expectedPods"] == 4
        })
        .await;
    let error = admin.drain("worker-1", &mut cluster.wait(1)).await.unwrap_err();
    let DrainError::Wait { source: WaitError::TimedOut { reason, .. }, .. } = &error else {
        panic!("{error:?}")
    };
    assert!(reason.starts_with("4 pods are still on worker-1; "), "{reason}");
    assert!(reason.contains("disruption budget"), "{reason}");
}
