//! Tests of controllers, scheduler and kubelets.

use serde_json::{Value, json};

use super::cluster::{Cluster, deployment, is_true, machine, static_pod};

const DEPLOYMENTS: &str = "/apis/apps/v1/namespaces/default/deployments";

fn pods_of(cluster: &Cluster, app: &str) -> Vec<std::sync::Arc<Value>> {
    let mut pods = cluster.store.list("pods");
    pods.retain(|pod| pod["metadata"]["labels"]["app"] == app);
    pods
}

#[tokio::test(flavor = "multi_thread")]
async fn nodes_become_ready_with_a_network_plugin() {
    let cluster = Cluster::start(&["cp-1", "w-1"]).await;
    let node =
        cluster.until("nodes", "", "w-1", |node| node["status"]["conditions"].is_array()).await;
    assert!(!is_true(&node, "Ready"));
    let web = deployment("web", 1, "web:1");
    cluster.store.create("deployments.apps", web).unwrap();
    cluster.store.create("daemonsets.apps", super::cluster::flannel()).unwrap();
    let node = cluster.until("nodes", "", "w-1", |node| is_true(node, "Ready")).await;
    assert_eq!(node["spec"]["podCIDR"], "10.244.1.0/24");
    cluster.until("deployments.apps", "default", "web", |web| is_true(web, "Available")).await;
    assert_eq!(pods_of(&cluster, "web")[0]["spec"]["nodeName"], "w-1");
    let set = cluster
        .until("daemonsets.apps", "kube-system", "kube-flannel", |set| {
            set["status"]["numberAvailable"] == 2
        })
        .await;
    assert_eq!(set["status"]["desiredNumberScheduled"], 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn mirror_pods_follow_their_static_pod_manifest() {
    let cluster = Cluster::start_ready(&["cp-1"]).await;
    let of = |version: &'static str| {
        move |pod: &Value| {
            let image = pod["spec"]["containers"][0]["image"].as_str().unwrap();
            image.ends_with(version) && is_true(pod, "Ready")
        }
    };
    let name = "kube-apiserver-cp-1";
    let pod = cluster.until("pods", "kube-system", name, of("v1.32.4")).await;
    assert!(pod["metadata"]["annotations"]["kubernetes.io/config.mirror"].is_string());
    assert_eq!(pod["status"]["podIP"], "10.0.0.11");
    cluster.store.set_static_pods("cp-1", &machine("cp-1", 0).boot_id, vec![static_pod("v1.33.0")]);
    cluster.until("pods", "kube-system", name, of("v1.33.0")).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deployment_rolls_to_a_new_template() {
    let cluster = Cluster::start_ready(&["w-1", "w-2"]).await;
    let mut admin = cluster.admin().await;
    admin.post(DEPLOYMENTS, &deployment("web", 4, "web:1")).await;
    let is_done = |generation: u64| {
        move |web: &Value| {
            web["status"]["observedGeneration"] == generation
                && web["status"]["updatedReplicas"] == 4
                && web["status"]["replicas"] == 4
                && web["status"]["availableReplicas"] == 4
        }
    };
    cluster.until("deployments.apps", "default", "web", is_done(1)).await;
    let on_first = |pods: &[std::sync::Arc<Value>]| {
        pods.iter().filter(|pod| pod["spec"]["nodeName"] == "w-1").count()
    };
    assert_eq!(on_first(&pods_of(&cluster, "web")), 2);
    let image = json!({"spec": {"template": {"spec": {"containers": [{"name": "main", "image": "web:2"}]}}}});
    admin.patch(&format!("{DEPLOYMENTS}/web"), "strategic-merge-patch+json", &image).await;
    cluster.until("deployments.apps", "default", "web", is_done(2)).await;
    let pods = pods_of(&cluster, "web");
    let is_new = |pod: &&std::sync::Arc<Value>| pod["spec"]["containers"][0]["image"] == "web:2";
    assert_eq!(pods.iter().filter(is_new).count(), 4);
    let scale = json!({"spec": {"replicas": 1}});
    let scaled = admin.patch(&format!("{DEPLOYMENTS}/web/scale"), "merge-patch+json", &scale).await;
    assert_eq!(scaled.body["spec"]["replicas"], 1);
    cluster.until("deployments.apps", "default", "web", |web| web["status"]["replicas"] == 1).await;
    admin.delete(&format!("{DEPLOYMENTS}/web")).await;
    let clock = talmox_clock::Clock::real();
    for _ in 0..6000 {
        if pods_of(&cluster, "web").is_empty() {
            break;
        }
        clock.sleep(std::time::Duration::from_millis(10)).await;
    }
    assert!(pods_of(&cluster, "web").is_empty());
    assert!(cluster.store.list("replicasets.apps").is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rollback_reuses_the_old_replica_set() {
    let cluster = Cluster::start_ready(&["w-1"]).await;
    let mut admin = cluster.admin().await;
    let path = format!("{DEPLOYMENTS}/web");
    admin.post(DEPLOYMENTS, &deployment("web", 1, "web:1")).await;
    let is_done = |generation: u64| {
        move |web: &Value| {
            web["status"]["observedGeneration"] == generation
                && web["status"]["updatedReplicas"] == 1
                && web["status"]["replicas"] == 1
        }
    };
    cluster.until("deployments.apps", "default", "web", is_done(1)).await;
    let first = admin.get(&path).await.body["spec"]["template"].clone();
    let image = json!([{"op": "replace", "path": "/spec/template/spec/containers/0/image", "value": "web:2"}]);
    admin.patch(&path, "json-patch+json", &image).await;
    cluster.until("deployments.apps", "default", "web", is_done(2)).await;
    // kubectl sends the fields in another order, and with a timestamp that is null.
    let mut back = json!({"metadata": {"creationTimestamp": null}, "spec": {}});
    back["metadata"]["labels"] = first["metadata"]["labels"].clone();
    for (key, value) in first["spec"].as_object().unwrap().iter().rev() {
        back["spec"][key] = value.clone();
    }
    let undo = json!([{"op": "replace", "path": "/spec/template", "value": back}]);
    let undone = admin.patch(&path, "json-patch+json", &undo).await;
    assert_eq!((undone.status, &undone.body["spec"]["template"]), (200, &first));
    cluster.until("deployments.apps", "default", "web", is_done(3)).await;
    assert_eq!(cluster.store.list("replicasets.apps").len(), 2);
    let web = admin.get(&path).await.body;
    assert_eq!(web["metadata"]["annotations"]["deployment.kubernetes.io/revision"], "3");
}

#[tokio::test(flavor = "multi_thread")]
async fn negative_replicas_are_rejected() {
    let cluster = Cluster::start(&[]).await;
    let mut admin = cluster.admin().await;
    let mut web = deployment("web", 1, "web:1");
    web["spec"]["replicas"] = (-1).into();
    let rejected = admin.post(DEPLOYMENTS, &web).await;
    assert_eq!(rejected.status, 422);
    assert_eq!(
        rejected.body["message"],
        "Deployment.apps \"web\" is invalid: spec.replicas: Invalid value: -1: must be greater than or equal to 0"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn evictions_respect_budgets_and_cordoned_nodes_get_no_pods() {
    let cluster = Cluster::start_ready(&["w-1", "w-2"]).await;
    let mut admin = cluster.admin().await;
    admin.post(DEPLOYMENTS, &deployment("web", 2, "web:1")).await;
    let both = |web: &Value| web["status"]["availableReplicas"] == 2;
    cluster.until("deployments.apps", "default", "web", both).await;
    let budget = json!({
        "metadata": {"name": "web"},
        "spec": {"minAvailable": 2, "selector": {"matchLabels": {"app": "web"}}},
    });
    let budgets = "/apis/policy/v1/namespaces/default/poddisruptionbudgets";
    admin.post(budgets, &budget).await;
    admin
        .patch("/api/v1/nodes/w-1", "merge-patch+json", &json!({"spec": {"unschedulable": true}}))
        .await;
    let pods = pods_of(&cluster, "web");
    let pod = pods.iter().find(|pod| pod["spec"]["nodeName"] == "w-1").unwrap();
    let name = pod["metadata"]["name"].as_str().unwrap();
    let path = format!("/api/v1/namespaces/default/pods/{name}/eviction");
    let eviction =
        json!({"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name}});
    let rejected = admin.post(&path, &eviction).await;
    assert_eq!((rejected.status, &rejected.body["reason"]), (429, &json!("TooManyRequests")));
    admin.delete(&format!("{budgets}/web")).await;
    assert_eq!(admin.post(&path, &eviction).await.status, 201);
    cluster.until_gone("pods", "default", name).await;
    cluster.until("deployments.apps", "default", "web", both).await;
    assert!(pods_of(&cluster, "web").iter().all(|pod| pod["spec"]["nodeName"] == "w-2"));
    admin.post(budgets, &budget).await;
    cluster.assert_idle().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lost_node_becomes_unreachable_and_recovers() {
    let cluster = Cluster::start_ready(&["w-1", "w-2"]).await;
    cluster.store.stop_kubelet("w-2", &machine("w-2", 1).boot_id);
    let node = cluster
        .until("nodes", "", "w-2", |node| {
            let taints = node["spec"]["taints"].as_array();
            taints
                .is_some_and(|all| all.iter().any(|t| t["key"] == "node.kubernetes.io/unreachable"))
        })
        .await;
    assert!(!is_true(&node, "Ready"));
    cluster.store.start_kubelet(machine("w-2", 1));
    let node = cluster
        .until("nodes", "", "w-2", |node| {
            is_true(node, "Ready") && node["spec"].get("taints").is_none()
        })
        .await;
    assert_eq!(node["metadata"]["name"], "w-2");
    cluster.assert_idle().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn deleting_a_namespace_deletes_its_objects() {
    let cluster = Cluster::start_ready(&["w-1"]).await;
    let mut admin = cluster.admin().await;
    admin.post("/api/v1/namespaces", &json!({"metadata": {"name": "team"}})).await;
    cluster.until("serviceaccounts", "team", "default", |_| true).await;
    let mut web = deployment("web", 2, "web:1");
    web["metadata"]["namespace"] = "team".into();
    admin.post("/apis/apps/v1/namespaces/team/deployments", &web).await;
    cluster.until("deployments.apps", "team", "web", |web| is_true(web, "Available")).await;
    let going = admin.delete("/api/v1/namespaces/team").await;
    assert_eq!(going.body["status"]["phase"], "Terminating");
    let late =
        admin.post("/api/v1/namespaces/team/configmaps", &json!({"metadata": {"name": "a"}})).await;
    assert!(late.status == 403 || late.status == 404, "{}", late.body);
    cluster.until_gone("namespaces", "", "team").await;
    assert!(pods_of(&cluster, "web").is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn jobs_complete_and_stateful_sets_start_in_order() {
    let cluster = Cluster::start_ready(&["w-1"]).await;
    let containers = json!([{"name": "main", "image": "tool:1"}]);
    let job = json!({
        "metadata": {"name": "once", "namespace": "default"},
        "spec": {"completions": 2, "template": {"spec": {"containers": containers}}},
    });
    cluster.store.create("jobs.batch", job).unwrap();
    let job = cluster.until("jobs.batch", "default", "once", |job| is_true(job, "Complete")).await;
    assert_eq!(job["status"]["succeeded"], 2);
    let mut set = deployment("db", 2, "db:1");
    set["spec"]["serviceName"] = "db".into();
    set.as_object_mut().unwrap().remove("kind");
    cluster.store.create("statefulsets.apps", set).unwrap();
    let two = |set: &Value| set["status"]["readyReplicas"] == 2;
    cluster.until("statefulsets.apps", "default", "db", two).await;
    for pod in ["db-0", "db-1"] {
        assert!(cluster.store.get("pods", "default", pod).is_some());
    }
    cluster.assert_idle().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn key_order_does_not_change_the_template_hash() {
    let cluster = Cluster::start_ready(&["w-1"]).await;
    let mut one = super::cluster::flannel();
    one["metadata"] = json!({"name": "one", "namespace": "default"});
    let mut two = one.clone();
    two["metadata"]["name"] = "two".into();
    let spec = one["spec"]["template"]["spec"].as_object().unwrap();
    two["spec"]["template"]["spec"] = json!({});
    for (key, value) in spec.iter().rev() {
        two["spec"]["template"]["spec"][key] = value.clone();
    }
    for set in [one, two] {
        cluster.store.create("daemonsets.apps", set).unwrap();
    }
    for set in ["one", "two"] {
        let is_there = |set: &Value| set["status"]["numberReady"] == 1;
        cluster.until("daemonsets.apps", "default", set, is_there).await;
    }
    let mut pods = cluster.store.list("pods");
    pods.retain(|pod| pod["metadata"]["namespace"] == "default");
    let hash = |at: usize| &pods[at]["metadata"]["labels"]["controller-revision-hash"];
    assert_eq!((pods.len(), hash(0)), (2, hash(1)));
}
