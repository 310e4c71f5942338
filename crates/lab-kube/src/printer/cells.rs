//! Table cells of the built-in kinds.

use std::time::Duration;

use serde_json::{Value, json};

use super::age;
use super::{age_of, less_common};
use crate::object::{self, flag, list, name, number, text};

/// Cells of an object's row, in the order of the columns.
pub(super) fn of(id: &str, object: &Value, now: Duration) -> Vec<Value> {
    let age = || Value::from(age_of(object, now));
    let first = Value::from(name(object));
    let count = |pointer: &str| Value::from(number(object, pointer).unwrap_or_default());
    let entries = |key: &str| object[key].as_object().map_or(0, serde_json::Map::len);
    match id {
        "pods" => pod(object, now),
        "nodes" => node(object, now),
        "namespaces" => vec![first, text(object, "/status/phase").into(), age()],
        "configmaps" => {
            vec![first, (entries("data") + entries("binaryData")).into(), age()]
        }
        "secrets" => {
            vec![first, text(object, "/type").into(), entries("data").into(), age()]
        }
        "serviceaccounts" => vec![first, list(object, "/secrets").len().into(), age()],
        "services" => service(object, now),
        "events" => event(object, now),
        "deployments.apps" => {
            let ready = number(object, "/status/readyReplicas").unwrap_or_default();
            let wanted = number(object, "/spec/replicas").unwrap_or(1);
            let mut cells = vec![
                first,
                format!("{ready}/{wanted}").into(),
                count("/status/updatedReplicas"),
                count("/status/availableReplicas"),
                age(),
            ];
            cells.extend(template(object));
            cells
        }
        "replicasets.apps" => {
            let mut cells = vec![
                first,
                count("/spec/replicas"),
                count("/status/replicas"),
                count("/status/readyReplicas"),
                age(),
            ];
            cells.extend(template(object));
            cells
        }
        "daemonsets.apps" => {
            let selector = &object["spec"]["template"]["spec"]["nodeSelector"];
            let mut cells = vec![
                first,
                count("/status/desiredNumberScheduled"),
                count("/status/currentNumberScheduled"),
                count("/status/numberReady"),
                count("/status/updatedNumberScheduled"),
                count("/status/numberAvailable"),
                pairs(selector).into(),
                age(),
            ];
            cells.extend(template(object));
            cells
        }
        "statefulsets.apps" => {
            let ready = number(object, "/status/readyReplicas").unwrap_or_default();
            let wanted = number(object, "/spec/replicas").unwrap_or(1);
            let mut cells = vec![first, format!("{ready}/{wanted}").into(), age()];
            cells.extend(template(object).into_iter().take(2));
            cells
        }
        "jobs.batch" => job(object, now),
        "leases.coordination.k8s.io" => {
            vec![first, text(object, "/spec/holderIdentity").into(), age()]
        }
        "poddisruptionbudgets.policy" => {
            let limit = |key: &str| plain(object["spec"].get(key), "N/A");
            vec![
                first,
                limit("minAvailable").into(),
                limit("maxUnavailable").into(),
                count("/status/disruptionsAllowed"),
                age(),
            ]
        }
        "customresourcedefinitions.apiextensions.k8s.io"
        | "clusterroles.rbac.authorization.k8s.io"
        | "roles.rbac.authorization.k8s.io" => {
            vec![first, text(object, "/metadata/creationTimestamp").into()]
        }
        "clusterrolebindings.rbac.authorization.k8s.io"
        | "rolebindings.rbac.authorization.k8s.io" => binding(object, now),
        "storageclasses.storage.k8s.io" => vec![
            first,
            text(object, "/provisioner").into(),
            plain(object.get("reclaimPolicy"), "Delete").into(),
            plain(object.get("volumeBindingMode"), "Immediate").into(),
            flag(object, "/allowVolumeExpansion").into(),
            age(),
        ],
        _ => less_common::cells(id, object, now).unwrap_or_else(|| vec![first, age()]),
    }
}

fn plain(value: Option<&Value>, missing: &str) -> String {
    match value {
        Some(Value::String(text)) => text.clone(),
        Some(Value::Null) | None => missing.to_owned(),
        Some(other) => other.to_string(),
    }
}

fn or_none(text: &str) -> &str {
    if text.is_empty() { "<none>" } else { text }
}

fn pairs(labels: &Value) -> String {
    let all = labels.as_object().into_iter().flatten();
    let all: Vec<String> =
        all.map(|(key, value)| format!("{key}={}", value.as_str().unwrap_or_default())).collect();
    or_none(&all.join(",")).to_owned()
}

/// Cells with containers, images and selector of a workload.
fn template(object: &Value) -> Vec<Value> {
    let containers = list(object, "/spec/template/spec/containers");
    let joined = |key: &str| {
        let all: Vec<&str> = containers.iter().map(|container| text(container, key)).collect();
        Value::from(all.join(","))
    };
    let selector = pairs(&object["spec"]["selector"]["matchLabels"]);
    vec![joined("/name"), joined("/image"), selector.into()]
}

fn pod(object: &Value, now: Duration) -> Vec<Value> {
    let statuses = list(object, "/status/containerStatuses");
    let ready = statuses.iter().filter(|status| flag(status, "/ready")).count();
    let restarts: u64 = statuses.iter().filter_map(|status| number(status, "/restartCount")).sum();
    let waiting = statuses.iter().find_map(|status| status["state"]["waiting"]["reason"].as_str());
    let status = match (text(object, "/status/reason"), text(object, "/status/phase")) {
        _ if object::is_being_deleted(object) => "Terminating",
        ("", "Succeeded") => "Completed",
        ("", phase) => waiting.unwrap_or(phase),
        (reason, _) => reason,
    };
    vec![
        name(object).into(),
        format!("{ready}/{}", list(object, "/spec/containers").len()).into(),
        status.into(),
        restarts.to_string().into(),
        age_of(object, now).into(),
        or_none(text(object, "/status/podIP")).into(),
        or_none(text(object, "/spec/nodeName")).into(),
        "<none>".into(),
        "<none>".into(),
    ]
}

fn node(object: &Value, now: Duration) -> Vec<Value> {
    let mut status = match object::condition(object, "Ready").map(|ready| text(ready, "/status")) {
        Some("True") => "Ready".to_owned(),
        Some(_) => "NotReady".to_owned(),
        None => "Unknown".to_owned(),
    };
    if flag(object, "/spec/unschedulable") {
        status.push_str(",SchedulingDisabled");
    }
    let keys = object::labels(object).into_iter().flatten().map(|(key, _)| key);
    let mut roles: Vec<&str> =
        keys.filter_map(|key| key.strip_prefix("node-role.kubernetes.io/")).collect();
    roles.sort_unstable();
    let address = |kind: &str| {
        let found = list(object, "/status/addresses").iter().find(|one| one["type"] == kind);
        Value::from(found.map_or("<none>", |found| text(found, "/address")))
    };
    let info = |key: &str| Value::from(text(object, &format!("/status/nodeInfo/{key}")));
    vec![
        name(object).into(),
        status.into(),
        or_none(&roles.join(",")).into(),
        age_of(object, now).into(),
        info("kubeletVersion"),
        address("InternalIP"),
        address("ExternalIP"),
        info("osImage"),
        info("kernelVersion"),
        info("containerRuntimeVersion"),
    ]
}

fn service(object: &Value, now: Duration) -> Vec<Value> {
    let ports: Vec<String> = list(object, "/spec/ports")
        .iter()
        .map(|port| {
            let node = number(port, "/nodePort").filter(|node| *node != 0);
            let node = node.map(|node| format!(":{node}")).unwrap_or_default();
            format!("{}{node}/{}", port["port"], text(port, "/protocol"))
        })
        .collect();
    let external = match text(object, "/spec/type") {
        "LoadBalancer" => match text(object, "/status/loadBalancer/ingress/0/ip") {
            "" => "<pending>",
            address => address,
        },
        "ExternalName" => text(object, "/spec/externalName"),
        _ => "<none>",
    };
    vec![
        name(object).into(),
        text(object, "/spec/type").into(),
        or_none(text(object, "/spec/clusterIP")).into(),
        external.into(),
        or_none(&ports.join(",")).into(),
        age_of(object, now).into(),
        pairs(&object["spec"]["selector"]).into(),
    ]
}

fn event(object: &Value, now: Duration) -> Vec<Value> {
    let last = match text(object, "/lastTimestamp") {
        "" => text(object, "/metadata/creationTimestamp"),
        time => time,
    };
    let involved = &object["involvedObject"];
    let about = format!("{}/{}", text(involved, "/kind").to_lowercase(), text(involved, "/name"));
    vec![
        age::since(last, now).into(),
        text(object, "/type").into(),
        text(object, "/reason").into(),
        about.into(),
        text(involved, "/fieldPath").into(),
        text(object, "/source/component").into(),
        text(object, "/message").into(),
        age::since(text(object, "/firstTimestamp"), now).into(),
        number(object, "/count").unwrap_or(1).to_string().into(),
        name(object).into(),
    ]
}

fn job(object: &Value, now: Duration) -> Vec<Value> {
    let status = if object::has_condition(object, "Complete") {
        "Complete"
    } else if object::has_condition(object, "Failed") {
        "Failed"
    } else {
        "Running"
    };
    let done = number(object, "/status/succeeded").unwrap_or_default();
    let wanted = number(object, "/spec/completions").unwrap_or(1);
    let started = text(object, "/status/startTime");
    let mut cells = vec![
        name(object).into(),
        status.into(),
        format!("{done}/{wanted}").into(),
        if started.is_empty() { "".into() } else { age::since(started, now).into() },
        age_of(object, now).into(),
    ];
    cells.extend(template(object));
    cells
}

fn binding(object: &Value, now: Duration) -> Vec<Value> {
    let role = format!("{}/{}", text(object, "/roleRef/kind"), text(object, "/roleRef/name"));
    let subjects = |kind: &str| {
        let all = list(object, "/subjects").iter().filter(|subject| subject["kind"] == kind);
        let names = all.map(|subject| match text(subject, "/namespace") {
            "" => text(subject, "/name").to_owned(),
            namespace => format!("{namespace}/{}", text(subject, "/name")),
        });
        json!(names.collect::<Vec<_>>().join(", "))
    };
    vec![
        name(object).into(),
        role.into(),
        age_of(object, now).into(),
        subjects("User"),
        subjects("Group"),
        subjects("ServiceAccount"),
    ]
}
