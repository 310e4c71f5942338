use serde_json::json;
use talmox_engine::kube::KubeClient;
use talmox_plan::manifest::read_manifests;
use talmox_plan::observed::CordonedBy;

use super::cluster::Cluster;

pub(crate) const APP: &str = "\
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

pub(crate) fn pods_on(store: &talmox_lab::kube::KubeStore, node: &str) -> usize {
    let here = |pod: &serde_json::Value| pod["spec"]["nodeName"] == node;
    store.list("pods").iter().filter(|pod| here(pod)).count()
}

/// Deploys the app, and waits until it runs.
pub(crate) async fn deploy(cluster: &Cluster) -> KubeClient {
    let admin = cluster.admin();
    let manifests = read_manifests("app.yaml", APP).unwrap();
    admin.apply(&manifests, &mut cluster.wait(10)).await.unwrap();
    admin.await_rollout(&manifests, &mut cluster.wait(10)).await.unwrap();
    admin
}

/// Creates a disruption budget that needs this number of pods of the app.
pub(crate) async fn protect(cluster: &Cluster, pods: u32) {
    let budget = json!({
        "metadata": {"name": "app", "namespace": "default"},
        "spec": {"minAvailable": pods, "selector": {"matchLabels": {"app": "app"}}},
    });
    cluster.store.create("poddisruptionbudgets.policy", budget).unwrap();
    cluster
        .until(|store| {
            let found = store.get("poddisruptionbudgets.policy", "default", "app").unwrap();
            found["status"]["expectedPods"] == 4
        })
        .await;
}

#[tokio::test]
async fn only_pods_that_can_run_elsewhere_must_leave() {
    let cluster = Cluster::start_ready(&["worker-1"]).await;
    let admin = deploy(&cluster).await;
    // The pod of flannel is not in the list.
    let pods = admin.pods_to_evict("worker-1").await.unwrap();
    assert_eq!(pods.len(), 4, "{pods:?}");
    assert!(pods.iter().all(|pod| pod.to_string().starts_with("default/app-")), "{pods:?}");
    assert!(pods.iter().all(|pod| !pod.is_ending));
    assert_eq!(admin.evict(&pods[0]).await.unwrap(), None);
    protect(&cluster, 4).await;
    let reason = admin.evict(&pods[1]).await.unwrap().unwrap();
    assert!(reason.starts_with("The disruption budget app needs 4 healthy pods"), "{reason}");
}

#[tokio::test]
async fn a_cordon_is_marked_and_a_node_that_changed_is_not_uncordoned() {
    let cluster = Cluster::start_ready(&["worker-1"]).await;
    let admin = cluster.admin();
    assert_eq!(admin.node_cordon("worker-2").await.unwrap(), None);
    // A controller may change the node between the two requests.
    let free = loop {
        let free = admin.node_cordon("worker-1").await.unwrap().unwrap();
        assert_eq!((free.by, free.is_marked, free.is_ready), (None, false, true));
        match admin.cordon("worker-1", &free).await {
            Ok(()) => break free,
            Err(error) => assert_eq!(error.code(), Some(409), "{error}"),
        }
    };
    let node = cluster.store.get("nodes", "", "worker-1").unwrap();
    assert_eq!(node["spec"]["unschedulable"], true);
    assert_eq!(node["metadata"]["annotations"]["talmox/cordoned"], "true");
    // The node that was read before the cordon is outdated.
    let error = admin.cordon("worker-1", &free).await.unwrap_err();
    assert_eq!(error.code(), Some(409), "{error}");
    loop {
        let own = admin.node_cordon("worker-1").await.unwrap().unwrap();
        assert_eq!(own.by, Some(CordonedBy::Talmox));
        match admin.uncordon("worker-1", &own).await {
            Ok(()) => break,
            Err(error) => assert_eq!(error.code(), Some(409), "{error}"),
        }
    }
    let node = cluster.store.get("nodes", "", "worker-1").unwrap();
    assert!(node["spec"].get("unschedulable").is_none(), "{node}");
    assert!(node["metadata"]["annotations"].get("talmox/cordoned").is_none(), "{node}");
    cluster.store.change("nodes", "", "worker-1", |node| {
        node["spec"]["unschedulable"] = true.into();
    });
    let foreign = admin.node_cordon("worker-1").await.unwrap().unwrap();
    assert_eq!((foreign.by, foreign.is_marked), (Some(CordonedBy::Other), false));
}
