//! Static pods of control planes.

use serde_json::{Value, json};
use talmox_lab_kube::yaml_to_json;
use talmox_yaml::Node as Yaml;

use super::component::{API_SERVER, CONTROLLER_MANAGER, Component, Components};
use crate::config::AppliedConfig;

/// Static pods of the control-plane components.
pub(crate) fn of_control_plane(components: &Components) -> Vec<Value> {
    let pods = components.0.iter();
    pods.map(|(id, component)| manifest(id, component)).collect()
}

/// Static pods that the config defines in `machine.pods`.
pub(super) fn of_config(config: &AppliedConfig) -> Vec<Value> {
    let pods = config.config.v1alpha1().and_then(|document| document.get(&["machine", "pods"]));
    let items = pods.and_then(Yaml::as_seq).map(|list| list.items.iter());
    items.into_iter().flatten().map(yaml_to_json).collect()
}

fn manifest(id: &str, component: &Component) -> Value {
    let (port, cpu, memory) = match id {
        API_SERVER => (6443, "200m", "512Mi"),
        CONTROLLER_MANAGER => (10257, "50m", "256Mi"),
        _ => (10259, "10m", "64Mi"),
    };
    let probe = |path: &str| {
        json!({
            "httpGet": {"path": path, "host": "localhost", "port": port, "scheme": "HTTPS"},
            "timeoutSeconds": 15,
        })
    };
    let host = json!({"fieldRef": {"apiVersion": "v1", "fieldPath": "status.podIP"}});
    let container = json!({
        "name": id,
        "image": component.image,
        "command": [format!("/usr/local/bin/{id}")],
        "env": [{"name": "POD_IP", "valueFrom": host}],
        "resources": {"requests": {"cpu": cpu, "memory": memory}},
        "livenessProbe": probe(if id == API_SERVER { "/livez" } else { "/healthz" }),
        "readinessProbe": probe(if id == API_SERVER { "/readyz" } else { "/healthz" }),
    });
    let version = component.version.to_string();
    let mut annotations = json!({
        "talos.dev/config-version": version,
        "talos.dev/secrets-version": "1",
    });
    if id != CONTROLLER_MANAGER {
        annotations["talos.dev/config-file-version"] = "1".into();
    }
    json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": id,
            "namespace": "kube-system",
            "annotations": annotations,
            "labels": {
                "app.kubernetes.io/component": "control-plane",
                "app.kubernetes.io/managed-by": "Talos",
                "app.kubernetes.io/name": id,
                "component": id,
                "k8s-app": id,
                "tier": "control-plane",
            },
        },
        "spec": {
            "containers": [container],
            "hostNetwork": true,
            "priority": 2_000_000_000,
            "priorityClassName": "system-cluster-critical",
        },
    })
}
