//! Tests of pod admission.

use serde_json::{Value, json};

use super::cluster::{Cluster, deployment, is_true};

const PODS: &str = "/api/v1/namespaces/default/pods";
const DEPLOYMENTS: &str = "/apis/apps/v1/namespaces/default/deployments";
const LEVEL: &str = "pod-security.kubernetes.io/enforce";

/// Admission plugins with the default settings of Talos.
pub(super) fn talos() -> Vec<Value> {
    vec![json!({
        "name": "PodSecurity",
        "configuration": {
            "defaults": {
                "enforce": "baseline",
                "enforce-version": "latest",
                "warn": "restricted",
                "warn-version": "latest",
            },
            "exemptions": {"namespaces": ["kube-system"], "runtimeClasses": [], "usernames": []},
        },
    })]
}

fn pod(name: &str, more: &Value) -> Value {
    let mut pod = json!({
        "metadata": {"name": name},
        "spec": {"containers": [{"name": "main", "image": "tool:1"}]},
    });
    for (key, value) in more.as_object().unwrap() {
        pod["spec"][key] = value.clone();
    }
    pod
}

#[tokio::test(flavor = "multi_thread")]
async fn pods_that_violate_the_pod_security_level_are_rejected() {
    let cluster = Cluster::start(&[]).await;
    cluster.store.admit_pods_by(&talos(), "v1.34.1");
    let mut admin = cluster.admin().await;
    let shared = pod("shared", &json!({"hostNetwork": true}));
    let rejected = admin.post(PODS, &shared).await;
    assert_eq!((rejected.status, &rejected.body["reason"]), (403, &json!("Forbidden")));
    assert_eq!(
        rejected.body["message"],
        "pods \"shared\" is forbidden: violates PodSecurity \"baseline:latest\": host namespaces (hostNetwork=true)"
    );
    assert_eq!(rejected.warnings, Vec::<String>::new());
    assert_eq!(admin.post("/api/v1/namespaces/kube-system/pods", &shared).await.status, 201);
    let plain = admin.post(PODS, &pod("plain", &json!({}))).await;
    assert_eq!((plain.status, plain.warnings.len()), (201, 1));
    let prefix = "299 - \"would violate PodSecurity \\\"restricted:latest\\\": allowPrivilegeEscalation != false (";
    assert!(plain.warnings[0].starts_with(prefix), "{:?}", plain.warnings);
    // A stricter level causes warnings about existing pods. A less strict level causes no warnings.
    let level = |level: &str| json!({"metadata": {"labels": {LEVEL: level}}});
    let space = "/api/v1/namespaces/default";
    let strict = admin.patch(space, "merge-patch+json", &level("restricted")).await;
    assert_eq!(
        strict.warnings,
        [
            "299 - \"existing pods in namespace \\\"default\\\" violate the new PodSecurity enforce level \\\"restricted:latest\\\"\"",
            "299 - \"plain: allowPrivilegeEscalation != false, unrestricted capabilities, runAsNonRoot != true, seccompProfile\"",
        ]
    );
    assert_eq!(admin.post(PODS, &pod("late", &json!({}))).await.status, 403);
    admin.patch(space, "merge-patch+json", &level("privileged")).await;
    assert_eq!(admin.post(PODS, &shared).await.status, 201);
    // Without a config of the plugin, only namespace labels set a level.
    cluster.store.admit_pods_by(&[], "v1.34.1");
    admin.patch(space, "merge-patch+json", &json!({"metadata": {"labels": {LEVEL: null}}})).await;
    assert_eq!(admin.post(PODS, &pod("free", &json!({"hostPID": true}))).await.status, 201);
    admin.patch(space, "merge-patch+json", &level("baseline")).await;
    assert_eq!(admin.post(PODS, &pod("late", &json!({"hostPID": true}))).await.status, 403);
}

#[tokio::test(flavor = "multi_thread")]
async fn workloads_report_rejected_pods_until_the_pods_are_accepted() {
    let cluster = Cluster::start_ready(&["w-1"]).await;
    cluster.store.admit_pods_by(&talos(), "v1.34.1");
    let mut admin = cluster.admin().await;
    let mut web = deployment("web", 2, "web:1");
    web["spec"]["template"]["spec"]["hostNetwork"] = true.into();
    let made = admin.post(DEPLOYMENTS, &web).await;
    assert_eq!((made.status, made.warnings.len()), (201, 1), "{}", made.body);
    let mut set = web.clone();
    set["kind"] = "DaemonSet".into();
    set["metadata"]["name"] = "agent".into();
    set["spec"].as_object_mut().unwrap().remove("replicas");
    let made = admin.post("/apis/apps/v1/namespaces/default/daemonsets", &set).await;
    assert_eq!(made.status, 201, "{}", made.body);
    let web = ("deployments.apps", "default", "web");
    let failed = cluster.until(web.0, web.1, web.2, |web| is_true(web, "ReplicaFailure")).await;
    assert!(!is_true(&failed, "Available"));
    let agent = ("daemonsets.apps", "default", "agent");
    let is_seen = |set: &Value| set["status"]["desiredNumberScheduled"] == 1;
    cluster.until(agent.0, agent.1, agent.2, is_seen).await;
    cluster.assert_idle().await;
    assert_eq!(admin.get(PODS).await.body["items"], json!([]));
    let events = admin.get("/api/v1/namespaces/default/events").await.body;
    let messages_of = |kind: &str| {
        let all = events["items"].as_array().unwrap();
        let about = |event: &&Value| event["involvedObject"]["kind"] == kind;
        let all: Vec<&Value> = all.iter().filter(about).collect();
        assert_eq!(all.len(), 1, "{kind}: {events:#}");
        assert_eq!(
            (&all[0]["reason"], &all[0]["type"]),
            (&json!("FailedCreate"), &json!("Warning"))
        );
        all[0]["message"].as_str().unwrap().to_owned()
    };
    let cause = "is forbidden: violates PodSecurity \"baseline:latest\": host namespaces (hostNetwork=true)";
    let (first, second) = (messages_of("DaemonSet"), messages_of("ReplicaSet"));
    assert!(
        first.starts_with("Error creating: pods \"agent-") && first.ends_with(cause),
        "{first}"
    );
    assert!(
        second.starts_with("Error creating: pods \"web-") && second.ends_with(cause),
        "{second}"
    );

    let free = json!({"metadata": {"labels": {LEVEL: "privileged"}}});
    admin.patch("/api/v1/namespaces/default", "merge-patch+json", &free).await;
    let is_well = |web: &Value| is_true(web, "Available") && !is_true(web, "ReplicaFailure");
    cluster.until(web.0, web.1, web.2, is_well).await;
    cluster.until(agent.0, agent.1, agent.2, |set| set["status"]["numberReady"] == 1).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn pods_that_refer_to_missing_objects_are_rejected() {
    let cluster = Cluster::start_ready(&["w-1"]).await;
    cluster.store.admit_pods_by(&talos(), "v1.34.1");
    let mut admin = cluster.admin().await;
    for (more, cause) in [
        (
            json!({"serviceAccountName": "robot"}),
            "error looking up service account default/robot: serviceaccount \"robot\" not found",
        ),
        (json!({"priorityClassName": "high"}), "no PriorityClass with name high was found"),
        (json!({"runtimeClassName": "kata"}), "pod rejected: RuntimeClass \"kata\" not found"),
    ] {
        let rejected = admin.post(PODS, &pod("a", &more)).await;
        assert_eq!(rejected.status, 403);
        assert_eq!(rejected.body["message"], format!("pods \"a\" is forbidden: {cause}"));
    }
    let account = json!({"metadata": {"name": "robot"}});
    admin.post("/api/v1/namespaces/default/serviceaccounts", &account).await;
    let class = json!({"metadata": {"name": "high"}, "value": 7});
    admin.post("/apis/scheduling.k8s.io/v1/priorityclasses", &class).await;
    let more = json!({"serviceAccountName": "robot", "priorityClassName": "high"});
    let made = admin.post(PODS, &pod("a", &more)).await;
    assert_eq!((made.status, &made.body["spec"]["priority"]), (201, &json!(7)), "{}", made.body);
    assert_eq!(made.body["spec"]["tolerations"][1]["tolerationSeconds"], 300);
    // A pod that is sent again as it was stored changes nothing.
    let mut again = pod("a", &more);
    again["spec"]["containers"][0]["image"] = "tool:2".into();
    let put = admin.put(&format!("{PODS}/a"), &again).await;
    assert!(put.status == 200 || put.body["reason"] == "Conflict", "{}", put.body);
    let running = |pod: &Value| pod["status"]["phase"] == "Running";
    cluster.until("pods", "default", "a", running).await;
}
