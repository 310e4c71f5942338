//! Defaults of fields that a client omits.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value, json};

use super::kind::Kind;
use super::object::{self, entry, text};
use super::schema;
use super::store::State;

/// Fills in the defaults of a new object.
pub(super) fn apply(state: &mut State, kind: &Kind, new: &mut Value) {
    match kind.id.as_str() {
        "namespaces" => {
            let name = object::name(new).to_owned();
            new["spec"] = json!({"finalizers": ["kubernetes"]});
            new["status"] = json!({"phase": "Active"});
            entry(&mut new["metadata"], "labels")
                .insert("kubernetes.io/metadata.name".to_owned(), name.into());
        }
        "secrets" => {
            take_string_data(new);
            set(new, "type", "Opaque");
        }
        "pods" => {
            let spec = entry(new, "spec");
            pod_spec(spec, "Always");
            set_in(spec, "enableServiceLinks", true);
            share_ports(spec);
            // Mirror pods have no service account.
            if object::annotation(new, "kubernetes.io/config.mirror").is_none() {
                // `serviceAccount` is the deprecated name of `serviceAccountName`.
                let account = match text(new, "/spec/serviceAccount") {
                    "" => "default".to_owned(),
                    account => account.to_owned(),
                };
                set_in(entry(new, "spec"), "serviceAccountName", account);
            }
            new["status"] = json!({"phase": "Pending", "qosClass": "BestEffort"});
        }
        "services" => service(state, new),
        "customresourcedefinitions.apiextensions.k8s.io" => definition(new),
        _ if kind.custom.is_some() => schema::complete(kind, new),
        _ => workload(kind, new),
    }
}

/// Copies fields from the old to the new object if an update may omit them.
pub(super) fn keep(kind: &Kind, old: &Value, new: &mut Value) {
    match kind.id.as_str() {
        "secrets" => {
            take_string_data(new);
            set(new, "type", text(old, "/type"));
        }
        "services" => {
            for key in ["clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy", "type"] {
                if let Some(value) = old["spec"].get(key) {
                    set_in(entry(new, "spec"), key, value.clone());
                }
            }
        }
        "pods" => {
            for key in [
                "nodeName",
                "serviceAccountName",
                "enableServiceLinks",
                "priority",
                "preemptionPolicy",
                "tolerations",
            ] {
                if let Some(value) = old["spec"].get(key) {
                    set_in(entry(new, "spec"), key, value.clone());
                }
            }
            pod_spec(entry(new, "spec"), "Always");
        }
        "namespaces" => {
            if let Some(spec) = old.get("spec") {
                set(new, "spec", spec.clone());
            }
        }
        "customresourcedefinitions.apiextensions.k8s.io" => definition(new),
        _ if kind.custom.is_some() => schema::complete(kind, new),
        _ => workload(kind, new),
    }
}

fn workload(kind: &Kind, new: &mut Value) {
    let restart = if kind.id == "jobs.batch" { "Never" } else { "Always" };
    let (replicas, extra) = match kind.id.as_str() {
        "deployments.apps" => (
            true,
            json!({
                "revisionHistoryLimit": 10,
                "progressDeadlineSeconds": 600,
                "strategy": {
                    "type": "RollingUpdate",
                    "rollingUpdate": {"maxSurge": "25%", "maxUnavailable": "25%"},
                },
            }),
        ),
        "replicasets.apps" => (true, json!({})),
        "statefulsets.apps" => {
            (true, json!({"podManagementPolicy": "OrderedReady", "revisionHistoryLimit": 10}))
        }
        "daemonsets.apps" => (
            false,
            json!({
                "revisionHistoryLimit": 10,
                "updateStrategy": {
                    "type": "RollingUpdate",
                    "rollingUpdate": {"maxUnavailable": 1, "maxSurge": 0},
                },
            }),
        ),
        "jobs.batch" => (
            false,
            json!({"parallelism": 1, "completions": 1, "backoffLimit": 6, "suspend": false}),
        ),
        _ => return,
    };
    let spec = entry(new, "spec");
    if replicas {
        set_in(spec, "replicas", 1);
    }
    for (key, value) in extra.as_object().into_iter().flatten() {
        set_in(spec, key, value.clone());
    }
    let template = spec.entry("template").or_insert_with(|| json!({}));
    pod_spec(entry(template, "spec"), restart);
}

fn pod_spec(spec: &mut Map<String, Value>, restart: &str) {
    set_in(spec, "restartPolicy", restart);
    set_in(spec, "terminationGracePeriodSeconds", 30);
    set_in(spec, "dnsPolicy", "ClusterFirst");
    set_in(spec, "schedulerName", "default-scheduler");
    set_in(spec, "securityContext", json!({}));
    for key in ["initContainers", "containers"] {
        let all = spec.get_mut(key).and_then(Value::as_array_mut).into_iter().flatten();
        for container in all.filter_map(Value::as_object_mut) {
            let image = container.get("image").and_then(Value::as_str).unwrap_or_default();
            let tag = image.rsplit('/').next().and_then(|last| last.split_once(':'));
            let is_latest = tag.is_none_or(|(_, tag)| tag == "latest") && !image.contains('@');
            set_in(container, "imagePullPolicy", if is_latest { "Always" } else { "IfNotPresent" });
            set_in(container, "terminationMessagePath", "/dev/termination-log");
            set_in(container, "terminationMessagePolicy", "File");
            set_in(container, "resources", json!({}));
            let ports = container.get_mut("ports").and_then(Value::as_array_mut);
            for port in ports.into_iter().flatten().filter_map(Value::as_object_mut) {
                set_in(port, "protocol", "TCP");
            }
        }
    }
}

/// Copies `containerPort` to `hostPort` in pods with `hostNetwork`.
fn share_ports(spec: &mut Map<String, Value>) {
    if spec.get("hostNetwork") != Some(&Value::Bool(true)) {
        return;
    }
    for key in ["initContainers", "containers"] {
        let all = spec.get_mut(key).and_then(Value::as_array_mut).into_iter().flatten();
        let ports = all.filter_map(|container| container.get_mut("ports")?.as_array_mut());
        for port in ports.flatten().filter_map(Value::as_object_mut) {
            let number = port.get("containerPort").cloned().unwrap_or_default();
            set_in(port, "hostPort", number);
        }
    }
}

fn service(state: &State, new: &mut Value) {
    let spec = entry(new, "spec");
    set_in(spec, "type", "ClusterIP");
    set_in(spec, "sessionAffinity", "None");
    let ports = spec.get_mut("ports").and_then(Value::as_array_mut).into_iter().flatten();
    for port in ports.filter_map(Value::as_object_mut) {
        set_in(port, "protocol", "TCP");
        let number = port.get("port").cloned().unwrap_or_default();
        set_in(port, "targetPort", number);
    }
    if spec["type"] != "ExternalName" {
        set_in(spec, "ipFamilies", json!(["IPv4"]));
        set_in(spec, "ipFamilyPolicy", "SingleStack");
        set_in(spec, "internalTrafficPolicy", "Cluster");
        let address = free_address(state);
        set_in(spec, "clusterIP", address);
        let address = spec["clusterIP"].clone();
        set_in(spec, "clusterIPs", json!([address]));
    }
    new["status"] = json!({"loadBalancer": {}});
}

/// First free address of the service network. The first ten addresses are reserved.
fn free_address(state: &State) -> String {
    let [a, b, c] = state.settings.service_network;
    let used: Vec<&str> =
        state.iter("services").map(|service| text(service, "/spec/clusterIP")).collect();
    (11..=254_u8)
        .map(|last| format!("{a}.{b}.{c}.{last}"))
        .find(|address| !used.contains(&address.as_str()))
        .unwrap_or_else(|| "None".to_owned())
}

fn definition(new: &mut Value) {
    let kind = text(new, "/spec/names/kind").to_owned();
    let spec = entry(new, "spec");
    set_in(spec, "conversion", json!({"strategy": "None"}));
    if let Some(names) = spec.get_mut("names").and_then(Value::as_object_mut) {
        set_in(names, "singular", kind.to_lowercase());
        set_in(names, "listKind", format!("{kind}List"));
    }
}

fn take_string_data(secret: &mut Value) {
    let Some(map) = secret.as_object_mut() else { return };
    let Some(Value::Object(plain)) = map.shift_remove("stringData") else { return };
    let data = entry(secret, "data");
    for (key, value) in plain {
        let encoded = STANDARD.encode(value.as_str().unwrap_or_default());
        data.insert(key, encoded.into());
    }
}

fn set(object: &mut Value, key: &str, value: impl Into<Value>) {
    if let Some(map) = object.as_object_mut() {
        set_in(map, key, value);
    }
}

fn set_in(map: &mut Map<String, Value>, key: &str, value: impl Into<Value>) {
    if map.get(key).is_none_or(Value::is_null) {
        map.insert(key.to_owned(), value.into());
    }
}
