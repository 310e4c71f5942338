//! Test of a large cluster.

use serde_json::{Value, json};

use super::cluster::{Cluster, deployment, is_true};

#[tokio::test(flavor = "multi_thread")]
async fn two_hundred_nodes_become_ready_and_run_a_thousand_pods() {
    let names: Vec<String> = (0..200).map(|at| format!("w-{at:03}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let cluster = Cluster::start_ready(&names).await;
    let mut proxy = super::cluster::flannel();
    proxy["metadata"]["name"] = "kube-proxy".into();
    for labels in ["/spec/selector/matchLabels", "/spec/template/metadata/labels"] {
        *proxy.pointer_mut(labels).unwrap() = json!({"k8s-app": "kube-proxy"});
    }
    cluster.store.create("daemonsets.apps", proxy).unwrap();
    cluster.store.create("deployments.apps", deployment("web", 600, "web:1")).unwrap();
    cluster
        .until("daemonsets.apps", "kube-system", "kube-proxy", |set| {
            set["status"]["numberAvailable"] == 200
        })
        .await;
    let is_done = |web: &Value| is_true(web, "Available") && web["status"]["readyReplicas"] == 600;
    cluster.until("deployments.apps", "default", "web", is_done).await;
    let mut admin = cluster.admin().await;
    let mut seen = 0;
    let mut path = "/api/v1/pods?limit=300".to_owned();
    loop {
        let list = admin.get(&path).await.body;
        seen += list["items"].as_array().unwrap().len();
        match list["metadata"]["continue"].as_str() {
            Some(token) => path = format!("/api/v1/pods?limit=300&continue={token}"),
            None => break,
        }
    }
    assert_eq!(seen, 1000);
    cluster.assert_idle().await;
}
