use std::sync::Mutex;

use serde_json::Value;
use talmox_clock::WaitError;
use talmox_engine::kube::{ApplyError, Comparison, KubeError};
use talmox_plan::manifest::{Manifest, read_manifests};

use super::cluster::Cluster;

/// Manifests in an order in which they cannot be applied: a kind after its object, and a namespace after objects in it.
const SHOP: &str = "\
apiVersion: shop.example/v1
kind: Shelf
metadata: {name: first, namespace: shop}
spec: {books: 3}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: till, namespace: shop}
spec:
  replicas: 2
  selector: {matchLabels: {app: till}}
  template:
    metadata: {labels: {app: till}}
    spec: {containers: [{name: main, image: till:1}]}
---
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: shelves.shop.example}
spec:
  group: shop.example
  names: {kind: Shelf, plural: shelves, singular: shelf, listKind: ShelfList}
  scope: Namespaced
  versions:
    - name: v1
      served: true
      storage: true
      schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}
---
apiVersion: v1
kind: Namespace
metadata: {name: shop}
---
apiVersion: batch/v1
kind: Job
metadata: {name: count, namespace: shop}
spec:
  template:
    metadata: {labels: {app: count}}
    spec: {restartPolicy: Never, containers: [{name: main, image: count:1}]}
";

fn shop() -> Vec<Manifest> {
    read_manifests("shop.yaml", SHOP).unwrap()
}

#[tokio::test]
async fn manifests_are_applied_in_an_order_that_works_and_awaited() {
    let cluster = Cluster::start_ready(&["worker-1"]).await;
    let admin = cluster.admin();
    let reasons = Mutex::new(vec![]);
    let tell = |reason: &str| reasons.lock().unwrap().push(reason.to_owned());
    admin.apply(&shop(), &mut cluster.wait(10).reporting(tell)).await.unwrap();
    admin.await_rollout(&shop(), &mut cluster.wait(10).reporting(tell)).await.unwrap();
    let till = cluster.store.get("deployments.apps", "shop", "till").unwrap();
    assert_eq!(till["status"]["availableReplicas"], 2);
    assert_eq!(till["metadata"]["managedFields"][0]["manager"], "talmox");
    let shelf = cluster.store.get("shelves.shop.example", "shop", "first").unwrap();
    assert_eq!(shelf["spec"]["books"], 3);
    let reasons = reasons.into_inner().unwrap();
    assert!(reasons.iter().any(|reason| reason.contains("Job shop/count")), "{reasons:?}");

    // Applying the manifests a second time changes nothing.
    let version = |name: &str| {
        let found = cluster.store.get("deployments.apps", "shop", name).unwrap();
        found["metadata"]["resourceVersion"].clone()
    };
    let before = version("till");
    admin.apply(&shop(), &mut cluster.wait(10)).await.unwrap();
    assert_eq!(version("till"), before);
}

#[tokio::test]
async fn a_field_of_another_manager_is_a_conflict_that_names_it() {
    let cluster = Cluster::start_ready(&["worker-1"]).await;
    let admin = cluster.admin();
    admin.apply(&shop(), &mut cluster.wait(10)).await.unwrap();
    cluster.store.change("deployments.apps", "shop", "till", |till| {
        till["spec"]["replicas"] = 5.into();
        let fields = till["metadata"]["managedFields"].as_array_mut().unwrap();
        let own = fields.iter_mut().find(|entry| entry["manager"] == "talmox").unwrap();
        own["manager"] = "another-manager".into();
    });
    let error = admin.apply(&shop(), &mut cluster.wait(10)).await.unwrap_err();
    let ApplyError::Conflict { object, conflicts } = &error else { panic!("{error:?}") };
    assert_eq!(object, "Deployment shop/till");
    assert_eq!(conflicts.len(), 1, "{conflicts:?}");
    assert_eq!(conflicts[0].field, ".spec.replicas");
    assert!(conflicts[0].with.contains("another-manager"), "{conflicts:?}");
    let till = cluster.store.get("deployments.apps", "shop", "till").unwrap();
    assert_eq!(till["spec"]["replicas"], 5);
}

#[tokio::test]
async fn a_workload_that_does_not_become_ready_is_reported_with_its_reason() {
    // Without a worker, no node can run the pods.
    let cluster = Cluster::start_ready(&["cp-1"]).await;
    let admin = cluster.admin();
    admin.apply(&shop(), &mut cluster.wait(10)).await.unwrap();
    let error = admin.await_rollout(&shop(), &mut cluster.wait(1)).await.unwrap_err();
    let ApplyError::Wait(WaitError::TimedOut { reason, .. }) = &error else { panic!("{error:?}") };
    assert!(reason.contains("Deployment shop/till: 0 of 2 pods are ready"), "{reason}");
    assert!(reason.contains("0/1 nodes are available"), "{reason}");
    assert!(!reason.contains("is not ready"), "{reason}");
}

#[tokio::test]
async fn unschedulable_pods_are_reported_with_the_reason_of_the_node() {
    let cluster = Cluster::start(&["cp-1"]).await;
    let admin = cluster.admin();
    admin.apply(&shop(), &mut cluster.wait(10)).await.unwrap();
    let is_left = |pod: &Value| {
        let conditions = pod["status"]["conditions"].as_array().into_iter().flatten();
        let mut scheduled = conditions.filter(|one| one["type"] == "PodScheduled");
        scheduled.any(|one| one["status"] == "False")
    };
    cluster.until(|store| store.list("pods").iter().any(|pod| is_left(pod))).await;
    let error = admin.await_rollout(&shop(), &mut cluster.wait(1)).await.unwrap_err();
    let ApplyError::Wait(WaitError::TimedOut { reason, .. }) = &error else { panic!("{error:?}") };
    assert!(reason.contains("0/1 nodes are available"), "{reason}");
    assert!(reason.contains("(cp-1 is not ready: container runtime network not ready"), "{reason}");
    assert!(reason.contains("cni plugin not initialized"), "{reason}");
}

#[tokio::test]
async fn an_unknown_kind_is_waited_for_and_named() {
    let cluster = Cluster::start(&[]).await;
    let text = "apiVersion: no.example/v1\nkind: Such\nmetadata: {name: thing}\n";
    let manifests = read_manifests("x.yaml", text).unwrap();
    let error = cluster.admin().apply(&manifests, &mut cluster.wait(1)).await.unwrap_err();
    let ApplyError::Missing(missing) = &error else { panic!("{error:?}") };
    assert_eq!(missing.reason(), "Such thing: the Kubernetes API has no no.example/v1 Such");
}

#[tokio::test]
async fn an_unknown_kind_of_a_builtin_group_is_rejected_at_once() {
    let cluster = Cluster::start(&[]).await;
    for (api_version, kind) in [("v1", "ConfgMap"), ("apps/v1", "Deploiment")] {
        let text = format!("apiVersion: {api_version}\nkind: {kind}\nmetadata: {{name: thing}}\n");
        let manifests = read_manifests("x.yaml", &text).unwrap();
        let expected = format!(
            "cannot apply {kind} thing (x.yaml, document 1): Kubernetes has no {api_version} {kind}"
        );
        let error = cluster.admin().apply(&manifests, &mut cluster.wait(10)).await.unwrap_err();
        let ApplyError::Rejected { source, .. } = &error else { panic!("{error:?}") };
        assert_eq!(source.to_string(), expected);
        let error = cluster.admin().compare(&manifests).await.unwrap_err();
        assert_eq!(error.to_string(), expected, "and before anything is done");
    }
}

#[tokio::test]
async fn a_namespace_that_another_user_creates_is_waited_for() {
    let cluster = Cluster::start(&[]).await;
    let text = "apiVersion: v1\nkind: Secret\nmetadata: {name: a, namespace: later}\n---\n\
        apiVersion: v1\nkind: ConfigMap\nmetadata: {name: b}\n";
    let manifests = read_manifests("x.yaml", text).unwrap();
    let error = cluster.admin().apply(&manifests, &mut cluster.wait(1)).await.unwrap_err();
    let text = error.to_string();
    assert!(text.starts_with("timed out after "), "{text}");
    assert!(text.ends_with(": Secret later/a: the namespace later does not exist"), "{text}");
    let found = |kind: &str, namespace: &str, name: &str| {
        cluster.store.get(kind, namespace, name).is_some()
    };
    assert!(found("configmaps", "default", "b"), "the others need not wait");

    let tell = |reason: &str| {
        let waited = "waiting for the add-on: Secret later/a: the namespace later does not exist";
        assert_eq!(reason, waited);
        let namespace = serde_json::json!({"metadata": {"name": "later"}});
        cluster.store.create("namespaces", namespace).unwrap();
    };
    cluster.admin().apply(&manifests, &mut cluster.wait(10).reporting(tell)).await.unwrap();
    assert!(found("secrets", "later", "a"));
}

/// Manifests with empty mappings and lists. Some of them have a meaning.
const EMPTY: &str = "\
apiVersion: apps/v1
kind: Deployment
metadata: {name: hollow, annotations: {}, creationTimestamp: null}
spec:
  replicas: 1
  strategy: {}
  selector: {matchLabels: {app: hollow}}
  template:
    metadata: {labels: {app: hollow}, annotations: {}}
    spec:
      securityContext: {}
      volumes: [{name: scratch, emptyDir: {}}]
      containers: [{name: main, image: 'hollow:1', args: [], env: [], resources: {}}]
status: {}
---
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: {name: nobody}
spec: {podSelector: {}, policyTypes: [Ingress], ingress: []}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: blank}
data: {}
";

#[tokio::test]
async fn empty_values_are_applied_and_compared() {
    let cluster = Cluster::start_ready(&["worker-1"]).await;
    let admin = cluster.admin();
    let texts = [
        EMPTY.to_owned(),
        EMPTY
            .replace("emptyDir: {}", "emptyDir: {medium: Memory}")
            .replace("podSelector: {}", "podSelector: {matchLabels: {app: hollow}}")
            .replace("data: {}", "data: {a: b}"),
        // The first manifests again.
        EMPTY.to_owned(),
    ];
    for (round, text) in texts.iter().enumerate() {
        let manifests = read_manifests("x.yaml", text).unwrap();
        let before = admin.compare(&manifests).await.unwrap().changes;
        assert_eq!(before.len(), 3, "round {round}: {before:?}");
        admin.apply(&manifests, &mut cluster.wait(10)).await.unwrap();
        admin.await_rollout(&manifests, &mut cluster.wait(10)).await.unwrap();
        assert_eq!(
            admin.compare(&manifests).await.unwrap(),
            Comparison::default(),
            "round {round}"
        );
    }
}

#[tokio::test]
async fn the_error_of_a_rejected_secret_hides_its_values() {
    let cluster = Cluster::start(&[]).await;
    let text = "apiVersion: v1\nkind: Secret\nmetadata: {name: Not_A_Name}\n\
        stringData: {password: hunter2}\n";
    let manifests = read_manifests("x.yaml", text).unwrap();
    let error = cluster.admin().apply(&manifests, &mut cluster.wait(1)).await.unwrap_err();
    assert!(matches!(error, ApplyError::Rejected { .. }), "{error:?}");
    assert!(!format!("{error:?}").contains("hunter2"));
}

/// Reasons of the rejections, and whether each rejection is final.
fn rejected(comparison: &Comparison) -> Vec<(&str, bool)> {
    comparison.refusals.iter().map(|one| (one.why.as_str(), one.is_final)).collect()
}

#[tokio::test]
async fn rejections_are_known_before_anything_is_applied() {
    let cluster = Cluster::start_ready(&["worker-1"]).await;
    let admin = cluster.admin();
    let read = |text: &str| read_manifests("shop.yaml", text).unwrap();
    let typo = SHOP.replace("replicas: 2", "replicsa: 2");
    let misfit = [(".spec.replicsa: field not declared in schema", true)];

    // The rejection is detected before any of the objects exists.
    assert_eq!(rejected(&admin.compare(&read(&typo)).await.unwrap()), misfit);
    assert_eq!(admin.compare(&shop()).await.unwrap().refusals, []);
    assert!(cluster.store.get("namespaces", "", "shop").is_none());
    admin.apply(&shop(), &mut cluster.wait(10)).await.unwrap();
    admin.await_rollout(&shop(), &mut cluster.wait(10)).await.unwrap();
    let found = admin.compare(&read(&typo)).await.unwrap();
    assert_eq!(rejected(&found), misfit);
    let [change] = &found.changes[..] else { panic!("{found:?}") };
    assert_eq!(
        (change.object.as_str(), change.what.as_str()),
        ("Deployment shop/till", "would be rejected")
    );
    assert_eq!(found.refusals[0].place, "shop.yaml, document 2");

    // A second object with the same mistake.
    let another = typo.replace("name: till", "name: purse");
    assert_eq!(rejected(&admin.compare(&read(&another)).await.unwrap()), misfit);
    assert!(cluster.store.get("deployments.apps", "shop", "purse").is_none());

    let moved = SHOP.replace("app: till", "app: purse");
    let found = admin.compare(&read(&moved)).await.unwrap();
    assert_eq!(rejected(&found), [("spec.selector: field is immutable", true)]);
}

#[tokio::test]
async fn an_unknown_field_fails_at_once() {
    let cluster = Cluster::start_ready(&["worker-1"]).await;
    let text = SHOP.replace("replicas: 2", "replicsa: 2");
    let manifests = read_manifests("shop.yaml", &text).unwrap();
    let reasons = Mutex::new(vec![]);
    let tell = |reason: &str| reasons.lock().unwrap().push(reason.to_owned());
    let applied = cluster.admin().apply(&manifests, &mut cluster.wait(600).reporting(tell)).await;
    let error = applied.unwrap_err();
    let ApplyError::Rejected { source, .. } = &error else { panic!("{error:?}") };
    let KubeError::Misfit { why, .. } = source else { panic!("{source:?}") };
    assert_eq!(why, ".spec.replicsa: field not declared in schema");
    let reasons = reasons.into_inner().unwrap();
    assert!(
        reasons.iter().all(|reason| !reason.contains("replicsa")),
        "no wait for it: {reasons:?}"
    );
}

#[tokio::test]
async fn an_unknown_field_of_a_custom_resource_is_waited_for() {
    let cluster = Cluster::start(&[]).await;
    let documents: Vec<&str> = SHOP.split("---\n").collect();
    let text = [documents[0], documents[2], documents[3]].join("---\n");
    let schema =
        "type: object, properties: {spec: {type: object, properties: {books: {type: integer}}}}";
    let text = text
        .replace("type: object, x-kubernetes-preserve-unknown-fields: true", schema)
        .replace("books: 3", "boks: 3");
    let manifests = read_manifests("shop.yaml", &text).unwrap();
    let reasons = Mutex::new(vec![]);
    let tell = |reason: &str| reasons.lock().unwrap().push(reason.to_owned());
    let mut wait = cluster.wait(600).reporting(tell);
    let error = cluster.admin().apply(&manifests, &mut wait).await.unwrap_err();
    let ApplyError::Rejected { source: KubeError::Misfit { why, .. }, .. } = &error else {
        panic!("{error:?}")
    };
    assert_eq!(why, ".spec.boks: field not declared in schema");
    let waited = format!("waiting for the add-on: Shelf shop/first: {why}");
    assert!(reasons.lock().unwrap().contains(&waited));
    assert!(!wait.has_timed_out());

    let right = read_manifests("shop.yaml", &text.replace("boks", "books")).unwrap();
    cluster.admin().apply(&right, &mut cluster.wait(10)).await.unwrap();
    let found = cluster.admin().compare(&manifests).await.unwrap();
    assert_eq!(rejected(&found), [(why.as_str(), false)], "its definition may change too");
}
