//! Tests of disruption budgets. The store has no controllers, so deleted pods are not created again.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use talmox_clock::{Chance, Clock};
use talmox_lab_kube::{KubeSettings, KubeStore};

/// Store with a StatefulSet of three ready pods.
fn store() -> Arc<KubeStore> {
    let store = KubeStore::new(KubeSettings {
        clock: Clock::scaled(100.0),
        chance: Chance::new(7),
        pod_start: Duration::from_secs(2),
        service_network: [10, 96, 0],
        pod_network: [10, 244],
        authority: String::new(),
    });
    let spec = json!({"containers": [{"name": "main", "image": "web:1"}]});
    let set = json!({
        "metadata": {"name": "web", "namespace": "default"},
        "spec": {
            "replicas": 3,
            "serviceName": "web",
            "selector": {"matchLabels": {"app": "web"}},
            "template": {"metadata": {"labels": {"app": "web"}}, "spec": spec},
        },
    });
    let set = store.create("statefulsets.apps", set).unwrap();
    for number in 0..3 {
        let name = format!("web-{number}");
        let pod = json!({
            "metadata": {
                "name": name,
                "namespace": "default",
                "labels": {"app": "web"},
                "ownerReferences": [{
                    "apiVersion": "apps/v1",
                    "kind": "StatefulSet",
                    "name": "web",
                    "uid": set["metadata"]["uid"],
                    "controller": true,
                }],
            },
            "spec": spec,
        });
        store.create("pods", pod).unwrap();
        store.change("pods", "default", &name, |pod| {
            pod["status"]["phase"] = "Running".into();
            pod["status"]["conditions"] = json!([{"type": "Ready", "status": "True"}]);
        });
    }
    store
}

fn budget(store: &KubeStore, name: &str, rule: Value) {
    let mut spec = rule;
    spec["selector"] = json!({"matchLabels": {"app": "web"}});
    let budget = json!({"metadata": {"name": name, "namespace": "default"}, "spec": spec});
    store.create("poddisruptionbudgets.policy", budget).unwrap();
}

/// Status code of the eviction of a pod.
fn evict(store: &KubeStore, pod: &str) -> u16 {
    store.evict("default", pod).map_or_else(|rejection| rejection.code, |()| 201)
}

#[tokio::test]
async fn a_budget_by_share_counts_the_replicas_of_the_workload() {
    for rule in [json!({"maxUnavailable": 1}), json!({"minAvailable": "60%"})] {
        let store = store();
        budget(&store, "web", rule.clone());
        assert_eq!(evict(&store, "web-0"), 201, "{rule}");
        assert_eq!(evict(&store, "web-1"), 429, "{rule}");
    }
}

#[tokio::test]
async fn a_pod_with_two_budgets_is_not_evicted() {
    let store = store();
    for name in ["one", "two"] {
        budget(&store, name, json!({"minAvailable": 0}));
    }
    assert_eq!(evict(&store, "web-0"), 500);
}
