//! Settings of the control plane's components.

use serde_json::{Value, json};

use super::endpoint::local_port;
use super::kubelet::{extra_args, table};
use super::kubernetes::COMPONENTS;
use super::proto::{Field, Form};
use super::{Item, Kind, View};
use crate::config::Applied;

const API_SERVER: &[Field] = &[
    ("image", 1, Form::Text),
    ("cloudProvider", 2, Form::Text),
    ("controlPlaneEndpoint", 3, Form::Text),
    ("etcdServers", 4, Form::Each(&Form::Text)),
    ("localPort", 5, Form::Number),
    ("serviceCIDR", 6, Form::Each(&Form::Text)),
    ("environmentVariables", 9, Form::Table),
    ("advertisedAddress", 11, Form::Text),
];
const CONTROLLER_MANAGER: &[Field] = &[
    ("enabled", 1, Form::Number),
    ("image", 2, Form::Text),
    ("cloudProvider", 3, Form::Text),
    ("podCIDRs", 4, Form::Each(&Form::Text)),
    ("serviceCIDRs", 5, Form::Each(&Form::Text)),
    ("environmentVariables", 8, Form::Table),
];
const SCHEDULER: &[Field] =
    &[("enabled", 1, Form::Number), ("image", 2, Form::Text), ("config", 7, Form::Struct)];
const PLUGIN: &[Field] = &[("name", 1, Form::Text), ("configuration", 2, Form::Struct)];
const AUTHORIZER: &[Field] =
    &[("type", 1, Form::Text), ("name", 2, Form::Text), ("webhook", 3, Form::Struct)];
const STATUS: &[Field] = &[("ready", 1, Form::Number), ("version", 2, Form::Text)];

pub(super) const KINDS: &[Kind] = &[
    Kind {
        name: "APIServerConfigs.kubernetes.talos.dev",
        proto: API_SERVER,
        list: |view| component(view, COMPONENTS[0], api_server),
    },
    Kind {
        name: "ControllerManagerConfigs.kubernetes.talos.dev",
        proto: CONTROLLER_MANAGER,
        list: |view| component(view, COMPONENTS[1], controller_manager),
    },
    Kind {
        name: "SchedulerConfigs.kubernetes.talos.dev",
        proto: SCHEDULER,
        list: |view| component(view, COMPONENTS[2], scheduler),
    },
    Kind {
        name: "AdmissionControlConfigs.kubernetes.talos.dev",
        proto: &[("config", 1, Form::Each(&Form::Message(PLUGIN)))],
        list: |view| {
            component(
                view,
                "admission-control",
                |_, config| json!({ "config": config.facts.admission_control }),
            )
        },
    },
    Kind {
        name: "AuditPolicyConfigs.kubernetes.talos.dev",
        proto: &[("config", 1, Form::Struct)],
        list: |view| {
            component(
                view,
                "audit-policy",
                |_, config| json!({ "config": table(config, "cluster.apiServer.auditPolicy") }),
            )
        },
    },
    Kind {
        name: "AuthorizationConfigs.kubernetes.talos.dev",
        proto: &[("image", 1, Form::Text), ("config", 2, Form::Each(&Form::Message(AUTHORIZER)))],
        list: |view| component(view, "authorization", authorization),
    },
    Kind {
        name: "ConfigStatuses.kubernetes.talos.dev",
        proto: STATUS,
        list: |view| rendered(view, &config_version(view)),
    },
    Kind {
        name: "SecretStatuses.kubernetes.talos.dev",
        proto: STATUS,
        list: |view| rendered(view, "1"),
    },
];

/// Resource of a control plane; workers have none.
pub(super) fn component(
    view: &View<'_>,
    id: &str,
    spec: fn(&View<'_>, &Applied) -> Value,
) -> Vec<Item> {
    // Static pods name the version of their settings, and the part of the lab that makes them counts it.
    let version = view.talos.components.get(&view.node.vmid).and_then(|all| all.0.get(id));
    let version = version.map(|component| component.version);
    let config = view.node.config.iter().filter(|config| config.facts.is_control_plane);
    config.map(|config| Item { version, ..Item::new(id, spec(view, config)) }).collect()
}

/// Files of static pods are written as soon as the pods may start.
fn rendered(view: &View<'_>, version: &str) -> Vec<Item> {
    if view.node.etcd.is_none() {
        return vec![];
    }
    vec![Item::new("static-pods", json!({ "ready": true, "version": version }))]
}

/// The versions of the four settings that are files, one after the other.
fn config_version(view: &View<'_>) -> String {
    let components = view.talos.components.get(&view.node.vmid);
    let scheduler = components.and_then(|all| all.0.get(COMPONENTS[2]));
    format!("111{}", scheduler.map_or(1, |scheduler| scheduler.version))
}

fn cloud_provider(config: &Applied) -> &'static str {
    if config.flag("cluster.externalCloudProvider.enabled") { "external" } else { "" }
}

fn resources(config: &Applied, component: &str) -> Value {
    let part = |name: &str| table(config, &format!("cluster.{component}.resources.{name}"));
    json!({ "requests": part("requests"), "limits": part("limits") })
}

fn extra_volumes(config: &Applied, component: &str) -> Vec<Value> {
    let volumes = config.value(&format!("cluster.{component}.extraVolumes"));
    let volumes = volumes.as_array().into_iter().flatten();
    volumes
        .map(|volume| {
            let path = volume["mountPath"].as_str().unwrap_or_default();
            json!({
                "name": path.replace(['/', '_', '.'], "-").trim_matches('-'),
                "hostPath": volume["hostPath"],
                "mountPath": path,
                "readonly": volume["readonly"] == true || volume["readonly"] == "true",
            })
        })
        .collect()
}

fn api_server(view: &View<'_>, config: &Applied) -> Value {
    let facts = &config.facts;
    let skips = config.flag("machine.kubelet.skipNodeRegistration");
    json!({
        "image": facts.api_server_image,
        "cloudProvider": cloud_provider(config),
        "controlPlaneEndpoint": config.value("cluster.controlPlane.endpoint"),
        "etcdServers": ["https://localhost:2379"],
        "localPort": local_port(config),
        "serviceCIDR": facts.service_subnets,
        "extraArgs": extra_args(view, config, "cluster.apiServer.extraArgs"),
        "extraVolumes": extra_volumes(config, "apiServer"),
        "environmentVariables": table(config, "cluster.apiServer.env"),
        // The kubelet puts the address in: this is a variable of the pod.
        "advertisedAddress": if skips { "" } else { "$(POD_IP)" },
        "resources": resources(config, "apiServer"),
    })
}

fn controller_manager(view: &View<'_>, config: &Applied) -> Value {
    let facts = &config.facts;
    json!({
        "enabled": !config.flag("machine.controlPlane.controllerManager.disabled"),
        "image": facts.controller_manager_image,
        "cloudProvider": cloud_provider(config),
        "podCIDRs": facts.pod_subnets,
        "serviceCIDRs": facts.service_subnets,
        "extraArgs": extra_args(view, config, "cluster.controllerManager.extraArgs"),
        "extraVolumes": extra_volumes(config, "controllerManager"),
        "environmentVariables": table(config, "cluster.controllerManager.env"),
        "resources": resources(config, "controllerManager"),
    })
}

fn scheduler(view: &View<'_>, config: &Applied) -> Value {
    json!({
        "enabled": !config.flag("machine.controlPlane.scheduler.disabled"),
        "image": config.facts.scheduler_image,
        "extraArgs": extra_args(view, config, "cluster.scheduler.extraArgs"),
        "extraVolumes": extra_volumes(config, "scheduler"),
        "environmentVariables": table(config, "cluster.scheduler.env"),
        "resources": resources(config, "scheduler"),
        "config": table(config, "cluster.scheduler.config"),
    })
}

/// Authorizers of the config. `Node` and `RBAC` are added where they are missing.
fn authorization(_: &View<'_>, config: &Applied) -> Value {
    let own = config.value("cluster.apiServer.authorizationConfig");
    let own = own.as_array().cloned().unwrap_or_default().into_iter();
    let mut all: Vec<Value> = own
        .map(|one| {
            let webhook = if one["webhook"].is_null() { json!({}) } else { one["webhook"].clone() };
            json!({ "type": one["type"], "name": one["name"], "webhook": webhook })
        })
        .collect();
    for (place, (kind, name)) in [("Node", "node"), ("RBAC", "rbac")].into_iter().enumerate() {
        if !all.iter().any(|one| one["type"] == kind) {
            let missing = json!({ "type": kind, "name": name, "webhook": {} });
            all.insert(place.min(all.len()), missing);
        }
    }
    json!({ "image": config.facts.api_server_image, "config": all })
}
