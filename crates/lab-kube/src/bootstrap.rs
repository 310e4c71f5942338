//! Objects of a new cluster: the system namespaces, the service `kubernetes` and the default RBAC
//! roles.

use serde_json::{Value, json};

use super::store::State;

const RBAC: &str = "rbac.authorization.k8s.io";
const READ: [&str; 3] = ["get", "list", "watch"];

pub(super) fn fill(state: &mut State) {
    for name in ["default", "kube-system", "kube-public", "kube-node-lease"] {
        make(state, "namespaces", json!({"metadata": {"name": name}}));
    }
    let [a, b, c] = state.settings.service_network;
    make(
        state,
        "services",
        json!({
            "metadata": {
                "name": "kubernetes",
                "namespace": "default",
                "labels": {"component": "apiserver", "provider": "kubernetes"},
            },
            "spec": {
                "clusterIP": format!("{a}.{b}.{c}.1"),
                "ports": [{"name": "https", "port": 443, "targetPort": 6443}],
            },
        }),
    );
    let all = json!([
        {"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]},
        {"nonResourceURLs": ["*"], "verbs": ["*"]},
    ]);
    let discovery_paths = [
        "/api",
        "/api/*",
        "/apis",
        "/apis/*",
        "/healthz",
        "/livez",
        "/openapi",
        "/openapi/*",
        "/readyz",
        "/version",
        "/version/",
    ];
    let discovery = json!([{"nonResourceURLs": discovery_paths, "verbs": ["get"]}]);
    let view = json!([{
        "apiGroups": ["", "apps", "batch", "policy", "networking.k8s.io", "discovery.k8s.io"],
        "resources": [
            "configmaps", "endpoints", "events", "namespaces", "persistentvolumeclaims", "pods",
            "serviceaccounts", "services", "daemonsets", "deployments", "replicasets",
            "statefulsets", "cronjobs", "jobs", "poddisruptionbudgets", "ingresses",
            "networkpolicies", "endpointslices",
        ],
        "verbs": READ,
    }]);
    let node = json!([
        {"apiGroups": [""], "resources": ["nodes"], "verbs": ["create", "get", "list", "watch", "update", "patch"]},
        {"apiGroups": [""], "resources": ["nodes/status", "pods/status"], "verbs": ["update", "patch"]},
        {"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list", "watch", "create", "delete"]},
        {"apiGroups": ["", "coordination.k8s.io"], "resources": ["leases", "events"], "verbs": ["create", "get", "update", "patch", "delete"]},
        {"apiGroups": [""], "resources": ["services", "secrets", "configmaps"], "verbs": READ},
    ]);
    let join = json!([{
        "apiGroups": ["certificates.k8s.io"],
        "resources": ["certificatesigningrequests"],
        "verbs": ["create", "get", "list", "watch"],
    }]);
    let roles = [
        ("cluster-admin", all, "cluster-admin", "system:masters"),
        ("system:discovery", discovery, "system:discovery", "system:authenticated"),
        ("view", view, "", ""),
        ("system:node", node, "system:node", "system:nodes"),
        (
            "system:node-bootstrapper",
            join,
            "system-bootstrap-node-bootstrapper",
            "system:bootstrappers",
        ),
    ];
    for (name, rules, binding, group) in roles {
        make(
            state,
            &format!("clusterroles.{RBAC}"),
            json!({
                "metadata": {"name": name, "labels": {"kubernetes.io/bootstrapping": "rbac-defaults"}},
                "rules": rules,
            }),
        );
        if !binding.is_empty() {
            make(
                state,
                &format!("clusterrolebindings.{RBAC}"),
                json!({
                    "metadata": {"name": binding},
                    "roleRef": {"apiGroup": RBAC, "kind": "ClusterRole", "name": name},
                    "subjects": [{"apiGroup": RBAC, "kind": "Group", "name": group}],
                }),
            );
        }
    }
    for (name, value) in
        [("system-node-critical", 2_000_001_000), ("system-cluster-critical", 2_000_000_000_u64)]
    {
        make(
            state,
            "priorityclasses.scheduling.k8s.io",
            json!({"metadata": {"name": name}, "value": value}),
        );
    }
}

fn make(state: &mut State, id: &str, object: Value) {
    // The creation cannot fail, because a new cluster has no object with this name.
    state.create_inside(id, object).ok();
}
