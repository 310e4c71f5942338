//! Table columns and cells of less common kinds.

use std::time::Duration;

use serde_json::{Map, Value};

use super::age_of;
use crate::object::{flag, list, name, number, text};

/// Names of the columns in the notation of [`super::columns`]; `None` for kinds that have only name and age.
pub(super) fn columns(id: &str) -> Option<&'static str> {
    Some(match id {
        "replicationcontrollers" => "Name|#Desired|#Current|#Ready|Age",
        "cronjobs.batch" => "Name|Schedule|Timezone|Suspend|#Active|Last Schedule|Age",
        "ingresses.networking.k8s.io" => "Name|Class|Hosts|Address|Ports|Age",
        "ingressclasses.networking.k8s.io" => "Name|Controller|Parameters|Age",
        "networkpolicies.networking.k8s.io" => "Name|Pod-Selector|Age",
        "endpoints" => "Name|Endpoints|Age",
        "endpointslices.discovery.k8s.io" => "Name|AddressType|Ports|Endpoints|Age",
        "priorityclasses.scheduling.k8s.io" => "Name|#Value|Global-Default|Age",
        "runtimeclasses.node.k8s.io" => "Name|Handler|Age",
        "controllerrevisions.apps" => "Name|Controller|#Revision|Age",
        "persistentvolumeclaims" => "Name|Status|Volume|Capacity|Access Modes|StorageClass|Age",
        "limitranges" => "Name|Created At",
        "csinodes.storage.k8s.io" => "Name|#Drivers|Age",
        "apiservices.apiregistration.k8s.io" => "Name|Service|Available|Age",
        "mutatingwebhookconfigurations.admissionregistration.k8s.io"
        | "validatingwebhookconfigurations.admissionregistration.k8s.io" => "Name|#Webhooks|Age",
        _ => return None,
    })
}

/// Table cells of an object between the name and the age.
pub(super) fn cells(id: &str, object: &Value, now: Duration) -> Option<Vec<Value>> {
    let count = |pointer: &str| Value::from(number(object, pointer).unwrap_or_default());
    let length = |pointer: &str| Value::from(list(object, pointer).len());
    let or_none =
        |text: String| Value::from(if text.is_empty() { "<none>".to_owned() } else { text });
    let plain = |pointer: &str| or_none(text(object, pointer).to_owned());
    let inner = match id {
        "replicationcontrollers" => {
            vec![count("/spec/replicas"), count("/status/replicas"), count("/status/readyReplicas")]
        }
        "cronjobs.batch" => vec![
            plain("/spec/schedule"),
            plain("/spec/timeZone"),
            if flag(object, "/spec/suspend") { "True".into() } else { "False".into() },
            length("/status/active"),
            match text(object, "/status/lastScheduleTime") {
                "" => "<none>".into(),
                time => super::age::since(time, now).into(),
            },
        ],
        "ingresses.networking.k8s.io" => ingress(object),
        "ingressclasses.networking.k8s.io" => vec![plain("/spec/controller"), "<none>".into()],
        "networkpolicies.networking.k8s.io" => {
            vec![or_none(pairs(&object["spec"]["podSelector"]["matchLabels"]))]
        }
        "endpoints" => vec![or_none(endpoints(object))],
        "endpointslices.discovery.k8s.io" => {
            let addresses =
                list(object, "/endpoints").iter().flat_map(|one| list(one, "/addresses"));
            let addresses: Vec<&str> = addresses.filter_map(Value::as_str).collect();
            let ports = list(object, "/ports").iter().map(|port| port["port"].to_string());
            vec![
                plain("/addressType"),
                or_none(ports.collect::<Vec<_>>().join(",")),
                or_none(addresses.join(",")),
            ]
        }
        "priorityclasses.scheduling.k8s.io" => {
            vec![object["value"].clone(), flag(object, "/globalDefault").into()]
        }
        "runtimeclasses.node.k8s.io" => vec![plain("/handler")],
        "controllerrevisions.apps" => {
            let owner = &object["metadata"]["ownerReferences"][0];
            let owner = format!("{}/{}", text(owner, "/kind").to_lowercase(), text(owner, "/name"));
            vec![owner.into(), count("/revision")]
        }
        "persistentvolumeclaims" => {
            let modes: Vec<&str> =
                list(object, "/spec/accessModes").iter().filter_map(Value::as_str).collect();
            vec![
                text(object, "/status/phase").into(),
                text(object, "/spec/volumeName").into(),
                text(object, "/status/capacity/storage").into(),
                modes.join(",").into(),
                text(object, "/spec/storageClassName").into(),
            ]
        }
        "limitranges" => {
            return Some(vec![
                name(object).into(),
                text(object, "/metadata/creationTimestamp").into(),
            ]);
        }
        "csinodes.storage.k8s.io" => vec![length("/spec/drivers")],
        "apiservices.apiregistration.k8s.io" => {
            let service = &object["spec"]["service"];
            let service = match text(service, "/name") {
                "" => "Local".to_owned(),
                service_name => format!("{}/{service_name}", text(service, "/namespace")),
            };
            let conditions = list(object, "/status/conditions").iter();
            let available = conditions.clone().find(|one| one["type"] == "Available");
            vec![service.into(), available.map_or("Unknown", |one| text(one, "/status")).into()]
        }
        "mutatingwebhookconfigurations.admissionregistration.k8s.io"
        | "validatingwebhookconfigurations.admissionregistration.k8s.io" => {
            vec![length("/webhooks")]
        }
        _ => return None,
    };
    let first = std::iter::once(Value::from(name(object)));
    let last = std::iter::once(Value::from(age_of(object, now)));
    Some(first.chain(inner).chain(last).collect())
}

fn pairs(labels: &Value) -> String {
    let all = labels.as_object().map(Map::iter).into_iter().flatten();
    let all = all.map(|(key, value)| format!("{key}={}", value.as_str().unwrap_or_default()));
    all.collect::<Vec<_>>().join(",")
}

fn endpoints(object: &Value) -> String {
    let mut all = vec![];
    for subset in list(object, "/subsets") {
        for address in list(subset, "/addresses") {
            let ports = list(subset, "/ports").iter();
            all.extend(ports.map(|port| format!("{}:{}", text(address, "/ip"), port["port"])));
        }
    }
    all.join(",")
}

fn ingress(object: &Value) -> Vec<Value> {
    let rules = list(object, "/spec/rules").iter();
    let hosts: Vec<&str> =
        rules.map(|rule| text(rule, "/host")).filter(|h| !h.is_empty()).collect();
    let class = text(object, "/spec/ingressClassName");
    let has_tls = !list(object, "/spec/tls").is_empty();
    vec![
        if class.is_empty() { "<none>".into() } else { class.into() },
        if hosts.is_empty() { "*".into() } else { hosts.join(",").into() },
        text(object, "/status/loadBalancer/ingress/0/ip").into(),
        if has_tls { "80, 443".into() } else { "80".into() },
    ]
}
