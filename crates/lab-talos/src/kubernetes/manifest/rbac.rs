//! RBAC objects, and the bootstrap token that kubelets use to join the cluster.

use serde_json::{Value, json};

use crate::config::Facts;
use crate::version::Version;

const GROUP: &str = "rbac.authorization.k8s.io";

/// Role that allows Talos on a node to read the endpoints of the API servers.
const TALOS_NODES: &str = "system:talos-nodes";

pub(super) fn manifests(facts: &Facts, version: &Version) -> Vec<(String, Vec<Value>)> {
    let bootstrappers = json!({"kind": "Group", "name": "system:bootstrappers", "apiGroup": GROUP});
    let nodes = json!({"kind": "Group", "name": "system:nodes", "apiGroup": GROUP});
    let csr = "system:certificates.k8s.io:certificatesigningrequests";
    let bindings = [
        (
            "01-csr-approver-role-binding",
            "system-bootstrap-approve-node-client-csr",
            format!("{csr}:nodeclient"),
            bootstrappers.clone(),
        ),
        (
            "01-csr-node-bootstrap",
            "system-bootstrap-node-bootstrapper",
            "system:node-bootstrapper".to_owned(),
            bootstrappers,
        ),
        (
            "01-csr-renewal-role-binding",
            "system-bootstrap-node-renewal",
            format!("{csr}:selfnodeclient"),
            nodes,
        ),
    ];
    let mut all = vec![("00-kubelet-bootstrapping-token".to_owned(), vec![token(facts)])];
    all.extend(bindings.into_iter().map(|(name, binding, role, subject)| {
        (name.to_owned(), vec![bind(binding, &role, &subject)])
    }));
    all.push(("11-kube-config-in-cluster".to_owned(), vec![kubeconfig()]));
    if version.is_at_least(11) {
        let nodes = json!({"kind": "Group", "name": "system:nodes", "apiGroup": GROUP});
        let objects = vec![bind(TALOS_NODES, TALOS_NODES, &nodes), talos_nodes()];
        all.push(("11-talos-node-rbac-template".to_owned(), objects));
    }
    all
}

/// Bootstrap token that kubelets use to join the cluster.
fn token(facts: &Facts) -> Value {
    let (id, secret) = facts.bootstrap_token.split_once('.').unwrap_or_default();
    json!({
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": format!("bootstrap-token-{id}"), "namespace": "kube-system"},
        "type": "bootstrap.kubernetes.io/token",
        "stringData": {
            "token-id": id,
            "token-secret": secret,
            "usage-bootstrap-authentication": "true",
            "auth-extra-groups": "system:bootstrappers:nodes",
        },
    })
}

pub(super) fn bind(name: &str, role: &str, subject: &Value) -> Value {
    json!({
        "apiVersion": format!("{GROUP}/v1"),
        "kind": "ClusterRoleBinding",
        "metadata": {"name": name},
        "roleRef": {"apiGroup": GROUP, "kind": "ClusterRole", "name": role},
        "subjects": [subject],
    })
}

fn talos_nodes() -> Value {
    json!({
        "apiVersion": format!("{GROUP}/v1"),
        "kind": "ClusterRole",
        "metadata": {"name": TALOS_NODES},
        "rules": [{
            "apiGroups": ["discovery.k8s.io"],
            "resources": ["endpointslices"],
            "verbs": ["get", "list", "watch"],
        }],
    })
}

fn kubeconfig() -> Value {
    let text = "apiVersion: v1\nkind: Config\nclusters:\n- name: local\n  cluster:\n    server: https://127.0.0.1:7445\n    certificate-authority: /var/run/secrets/kubernetes.io/serviceaccount/ca.crt\n";
    json!({
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "kubeconfig-in-cluster", "namespace": "kube-system"},
        "data": {"kubeconfig": text},
    })
}
