//! Settings of the kubelet.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use serde_json::{Map, Value, json};

use super::kubelet_configuration::{configuration, sorted};
use super::proto::{Field, Form};
use super::{Item, ResourceContext, ResourceSource};
use crate::config::{AppliedConfig, Facts, prefix};
use crate::service::ServiceState;

const CONFIG: &[Field] = &[
    ("image", 1, Form::Text),
    ("clusterDNS", 2, Form::Each(&Form::Text)),
    ("clusterDomain", 3, Form::Text),
    ("defaultRuntimeSeccompEnabled", 8, Form::Number),
    ("staticPodListURL", 10, Form::Text),
    ("disableManifestsDirectory", 11, Form::Number),
    ("enableFSQuotaMonitoring", 12, Form::Number),
    ("allowSchedulingOnControlPlane", 14, Form::Number),
];

pub(super) const SOURCES: &[ResourceSource] = &[
    ResourceSource {
        name: "KubeletConfigs.kubernetes.talos.dev",
        proto: CONFIG,
        list: |context| config_resource(context, "kubelet", config),
    },
    ResourceSource {
        name: "KubeletSpecs.kubernetes.talos.dev",
        proto: &[
            ("image", 1, Form::Text),
            ("args", 2, Form::Each(&Form::Text)),
            ("expectedNodename", 4, Form::Text),
            ("config", 5, Form::Struct),
        ],
        list: |context| config_resource(context, "kubelet", spec),
    },
    ResourceSource {
        name: "KubeletLifecycles.kubernetes.talos.dev",
        proto: &[],
        list: |context| {
            let kubelet = context.node.services.get("kubelet");
            let runs = kubelet.is_some_and(|kubelet| kubelet.state == ServiceState::Running);
            runs.then(|| Item::new("kubelet", json!({}))).into_iter().collect()
        },
    },
    ResourceSource {
        name: "StaticPodServerStatuses.kubernetes.talos.dev",
        proto: &[("url", 1, Form::Text)],
        list: |context| {
            let id = "static-pod-server-status";
            config_resource(context, id, |context, _| json!({ "url": static_pod_url(context) }))
        },
    },
    ResourceSource {
        name: "NodeIPConfigs.kubernetes.talos.dev",
        proto: &[
            ("validSubnets", 1, Form::Each(&Form::Text)),
            ("excludeSubnets", 2, Form::Each(&Form::Text)),
        ],
        list: |context| config_resource(context, "kubelet", node_ip),
    },
];

/// Resource of which every node with a config has exactly one.
fn config_resource(
    context: &ResourceContext<'_>,
    id: &str,
    spec: fn(&ResourceContext<'_>, &AppliedConfig) -> Value,
) -> Vec<Item> {
    let config = context.node.config.iter();
    config.map(|config| Item::new(id, spec(context, config))).collect()
}

/// URL of the server for static pods. Its port is different at each boot.
fn static_pod_url(context: &ResourceContext<'_>) -> String {
    let port = 32_768 + (context.node.boot * 7919 + u64::from(context.node.vmid)) % 28_000;
    format!("http://127.0.0.1:{port}")
}

/// Address with this number in a service subnet. Kubernetes assigns fixed service addresses by number.
pub(super) fn service_address(subnet: &str, number: u8) -> Option<IpAddr> {
    let subnet = prefix(subnet)?;
    Some(match subnet.address() {
        IpAddr::V4(first) => {
            let hosts = u32::MAX.checked_shr(subnet.length().into()).unwrap_or(0);
            Ipv4Addr::from((u32::from(first) & !hosts).checked_add(number.into())?).into()
        }
        IpAddr::V6(first) => {
            let hosts = u128::MAX.checked_shr(subnet.length().into()).unwrap_or(0);
            Ipv6Addr::from((u128::from(first) & !hosts).checked_add(number.into())?).into()
        }
    })
}

/// Addresses of the cluster DNS service.
pub(super) fn dns_addresses(facts: &Facts) -> Vec<String> {
    let subnets = facts.service_subnets.iter();
    subnets.filter_map(|subnet| Some(service_address(subnet, 10)?.to_string())).collect()
}

/// Extra arguments of a component. Since 1.13, an argument may have several values.
pub(super) fn extra_args(
    context: &ResourceContext<'_>,
    config: &AppliedConfig,
    path: &str,
) -> Value {
    let mut args = table(config, path);
    if context.node.version.is_at_least(13) {
        for value in args.values_mut() {
            let values = match value.take() {
                Value::Array(values) => values,
                value => vec![value],
            };
            *value = json!({ "values": values });
        }
    }
    args.into()
}

pub(super) fn table(config: &AppliedConfig, path: &str) -> Map<String, Value> {
    config.value(path).as_object().cloned().unwrap_or_default()
}

fn image(config: &AppliedConfig) -> String {
    let image = config.value("machine.kubelet.image");
    let default = || format!("ghcr.io/siderolabs/kubelet:{}", config.facts.kubelet_version);
    image.as_str().map_or_else(default, str::to_owned)
}

pub(super) fn cluster_dns(config: &AppliedConfig) -> Value {
    let own = config.value("machine.kubelet.clusterDNS");
    if own.is_null() { dns_addresses(&config.facts).into() } else { own }
}

/// Mounts in the form of the OCI runtime specification. The field names are in lower case.
fn extra_mounts(config: &AppliedConfig) -> Vec<Value> {
    let mounts = config.value("machine.kubelet.extraMounts");
    let mounts = mounts.as_array().into_iter().flatten();
    mounts
        .map(|mount| {
            json!({
                "destination": mount["destination"], "type": mount["type"],
                "source": mount["source"], "options": mount["options"],
                "uidmappings": [], "gidmappings": [],
            })
        })
        .collect()
}

/// Inserts a value unless it is empty.
fn insert_if_any(spec: &mut Value, key: &str, value: Value) {
    let is_empty = match &value {
        Value::Array(items) => items.is_empty(),
        Value::Object(fields) => fields.is_empty(),
        other => other.is_null(),
    };
    if !is_empty {
        spec[key] = value;
    }
}

fn config(context: &ResourceContext<'_>, config: &AppliedConfig) -> Value {
    let mut spec = json!({
        "image": image(config),
        "clusterDNS": cluster_dns(config),
        "clusterDomain": config.facts.dns_domain,
    });
    insert_if_any(&mut spec, "extraArgs", extra_args(context, config, "machine.kubelet.extraArgs"));
    insert_if_any(&mut spec, "extraMounts", extra_mounts(config).into());
    insert_if_any(&mut spec, "extraConfig", config.value("machine.kubelet.extraConfig"));
    let flag = |path: &str| Value::from(config.flag(path));
    for (key, value) in [
        ("cloudProviderExternal", flag("cluster.externalCloudProvider.enabled")),
        (
            "defaultRuntimeSeccompEnabled",
            flag("machine.kubelet.defaultRuntimeSeccompProfileEnabled"),
        ),
        ("skipNodeRegistration", flag("machine.kubelet.skipNodeRegistration")),
        ("staticPodListURL", static_pod_url(context).into()),
        ("disableManifestsDirectory", flag("machine.kubelet.disableManifestsDirectory")),
        ("enableFSQuotaMonitoring", flag("machine.features.diskQuotaSupport")),
        ("allowSchedulingOnControlPlane", config.facts.schedules_on_control_planes.into()),
    ] {
        spec[key] = value;
    }
    spec
}

fn spec(context: &ResourceContext<'_>, config: &AppliedConfig) -> Value {
    let mut spec = json!({ "image": image(config), "args": args(context, config) });
    insert_if_any(&mut spec, "extraMounts", extra_mounts(config).into());
    if !table(config, "machine.kubelet.extraArgs").contains_key("hostname-override") {
        spec["expectedNodename"] = context.node.hostname().into();
    }
    spec["config"] = sorted(configuration(config, &static_pod_url(context)).into());
    spec
}

fn args(context: &ResourceContext<'_>, config: &AppliedConfig) -> Vec<String> {
    let address = context.node.node_address().map(|address| address.to_string());
    let mut args = Map::new();
    let mut set = |key: &str, value: &str| args.insert(key.to_owned(), value.into());
    set("cert-dir", "/var/lib/kubelet/pki");
    set("config", "/etc/kubernetes/kubelet.yaml");
    set("hostname-override", context.node.hostname());
    set("node-ip", &address.unwrap_or_default());
    if !config.flag("machine.kubelet.skipNodeRegistration") {
        set("bootstrap-kubeconfig", "/etc/kubernetes/bootstrap-kubeconfig");
        set("kubeconfig", "/etc/kubernetes/kubeconfig-kubelet");
    }
    if config.flag("cluster.externalCloudProvider.enabled") {
        set("cloud-provider", "external");
    }
    args.extend(table(config, "machine.kubelet.extraArgs"));
    let mut lines = vec![];
    for (key, value) in &args {
        match value {
            Value::Array(values) => {
                lines.extend(values.iter().map(|value| format!("--{key}={}", plain(value))));
            }
            value => lines.push(format!("--{key}={}", plain(value))),
        }
    }
    lines.sort();
    lines
}

fn plain(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// Spec of `NodeIPConfig`. A virtual IP is never the address of the node.
fn node_ip(_: &ResourceContext<'_>, config: &AppliedConfig) -> Value {
    let facts = &config.facts;
    let mut valid = facts.node_ip_subnets.clone();
    if valid.is_empty() {
        let is_v6 = |subnet: &String| subnet.contains(':');
        let any = |subnet| if is_v6(subnet) { "::/0" } else { "0.0.0.0/0" };
        valid = facts.service_subnets.iter().map(|subnet| any(subnet).to_owned()).collect();
        valid.dedup();
    }
    let mut excluded: Vec<String> =
        facts.pod_subnets.iter().chain(&facts.service_subnets).cloned().collect();
    excluded.extend(facts.vips().map(|address| address.to_string()));
    json!({ "validSubnets": valid, "excludeSubnets": excluded })
}
