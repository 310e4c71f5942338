//! Settings of the control-plane components.

use serde_json::{Value, json};

use super::endpoint::local_port;
use super::kubelet::{extra_args, table};
use super::kubernetes::COMPONENTS;
use super::proto::{Field, Form};
use super::{Item, ResourceContext, ResourceSource};
use crate::config::AppliedConfig;

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

pub(super) const SOURCES: &[ResourceSource] = &[
    ResourceSource {
        name: "APIServerConfigs.kubernetes.talos.dev",
        proto: API_SERVER,
        list: |context| component(context, COMPONENTS[0], api_server),
    },
    ResourceSource {
        name: "ControllerManagerConfigs.kubernetes.talos.dev",
        proto: CONTROLLER_MANAGER,
        list: |context| component(context, COMPONENTS[1], controller_manager),
    },
    ResourceSource {
        name: "SchedulerConfigs.kubernetes.talos.dev",
        proto: SCHEDULER,
        list: |context| component(context, COMPONENTS[2], scheduler),
    },
    ResourceSource {
        name: "AdmissionControlConfigs.kubernetes.talos.dev",
        proto: &[("config", 1, Form::Each(&Form::Message(PLUGIN)))],
        list: |context| {
            component(
                context,
                "admission-control",
                |_, config| json!({ "config": config.facts.admission_control }),
            )
        },
    },
    ResourceSource {
        name: "AuditPolicyConfigs.kubernetes.talos.dev",
        proto: &[("config", 1, Form::Struct)],
        list: |context| {
            component(
                context,
                "audit-policy",
                |_, config| json!({ "config": table(config, "cluster.apiServer.auditPolicy") }),
            )
        },
    },
    ResourceSource {
        name: "AuthorizationConfigs.kubernetes.talos.dev",
        proto: &[("image", 1, Form::Text), ("config", 2, Form::Each(&Form::Message(AUTHORIZER)))],
        list: |context| component(context, "authorization", authorization),
    },
    ResourceSource {
        name: "ConfigStatuses.kubernetes.talos.dev",
        proto: STATUS,
        list: |context| rendered(context, &config_version(context)),
    },
    ResourceSource {
        name: "SecretStatuses.kubernetes.talos.dev",
        proto: STATUS,
        list: |context| rendered(context, "1"),
    },
];

/// Resource of a control-plane component. Workers have no such resource.
pub(super) fn component(
    context: &ResourceContext<'_>,
    id: &str,
    spec: fn(&ResourceContext<'_>, &AppliedConfig) -> Value,
) -> Vec<Item> {
    // Static pods contain the version of their settings. `Components` counts these versions.
    let version = context.talos.components.get(&context.node.vmid).and_then(|all| all.0.get(id));
    let version = version.map(|component| component.version);
    let config = context.node.config.iter().filter(|config| config.facts.is_control_plane);
    config.map(|config| Item { version, ..Item::new(id, spec(context, config)) }).collect()
}

/// Files of the static pods. They are written as soon as the pods may start.
fn rendered(context: &ResourceContext<'_>, version: &str) -> Vec<Item> {
    if context.node.etcd.is_none() {
        return vec![];
    }
    vec![Item::new("static-pods", json!({ "ready": true, "version": version }))]
}

/// Version numbers of the four written configs, joined into one text such as `1112`.
fn config_version(context: &ResourceContext<'_>) -> String {
    let components = context.talos.components.get(&context.node.vmid);
    let scheduler = components.and_then(|all| all.0.get(COMPONENTS[2]));
    format!("111{}", scheduler.map_or(1, |scheduler| scheduler.version))
}

fn cloud_provider(config: &AppliedConfig) -> &'static str {
    if config.flag("cluster.externalCloudProvider.enabled") { "external" } else { "" }
}

fn resources(config: &AppliedConfig, component: &str) -> Value {
    let part = |name: &str| table(config, &format!("cluster.{component}.resources.{name}"));
    json!({ "requests": part("requests"), "limits": part("limits") })
}

fn extra_volumes(config: &AppliedConfig, component: &str) -> Vec<Value> {
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

fn api_server(context: &ResourceContext<'_>, config: &AppliedConfig) -> Value {
    let facts = &config.facts;
    let skips = config.flag("machine.kubelet.skipNodeRegistration");
    json!({
        "image": facts.api_server_image,
        "cloudProvider": cloud_provider(config),
        "controlPlaneEndpoint": config.value("cluster.controlPlane.endpoint"),
        "etcdServers": ["https://localhost:2379"],
        "localPort": local_port(config),
        "serviceCIDR": facts.service_subnets,
        "extraArgs": extra_args(context, config, "cluster.apiServer.extraArgs"),
        "extraVolumes": extra_volumes(config, "apiServer"),
        "environmentVariables": table(config, "cluster.apiServer.env"),
        // This is a variable of the pod. The kubelet replaces it by the address.
        "advertisedAddress": if skips { "" } else { "$(POD_IP)" },
        "resources": resources(config, "apiServer"),
    })
}

fn controller_manager(context: &ResourceContext<'_>, config: &AppliedConfig) -> Value {
    let facts = &config.facts;
    json!({
        "enabled": !config.flag("machine.controlPlane.controllerManager.disabled"),
        "image": facts.controller_manager_image,
        "cloudProvider": cloud_provider(config),
        "podCIDRs": facts.pod_subnets,
        "serviceCIDRs": facts.service_subnets,
        "extraArgs": extra_args(context, config, "cluster.controllerManager.extraArgs"),
        "extraVolumes": extra_volumes(config, "controllerManager"),
        "environmentVariables": table(config, "cluster.controllerManager.env"),
        "resources": resources(config, "controllerManager"),
    })
}

fn scheduler(context: &ResourceContext<'_>, config: &AppliedConfig) -> Value {
    json!({
        "enabled": !config.flag("machine.controlPlane.scheduler.disabled"),
        "image": config.facts.scheduler_image,
        "extraArgs": extra_args(context, config, "cluster.scheduler.extraArgs"),
        "extraVolumes": extra_volumes(config, "scheduler"),
        "environmentVariables": table(config, "cluster.scheduler.env"),
        "resources": resources(config, "scheduler"),
        "config": table(config, "cluster.scheduler.config"),
    })
}

/// Authorizers in the config. `Node` and `RBAC` are added if they are missing.
fn authorization(_: &ResourceContext<'_>, config: &AppliedConfig) -> Value {
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
