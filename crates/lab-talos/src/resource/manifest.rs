//! Bootstrap manifests of a cluster.

use serde_json::{Map, Value, json};

use super::control_plane::component;
use super::kubelet::{dns_addresses, table};
use super::proto::{Field, Form};
use super::{Item, ResourceContext, ResourceSource};
use crate::config::AppliedConfig;
use crate::kubernetes;

const BOOTSTRAP: &[Field] = &[
    ("string", 1, Form::Text),
    ("clusterDomain", 2, Form::Text),
    ("podCIDRs", 3, Form::Each(&Form::Text)),
    ("proxyEnabled", 4, Form::Number),
    ("proxyImage", 5, Form::Text),
    ("proxyArgs", 6, Form::Each(&Form::Text)),
    ("coreDNSEnabled", 7, Form::Number),
    ("coreDNSImage", 8, Form::Text),
    ("dnsServiceIP", 9, Form::Text),
    ("dnsServiceIPv6", 10, Form::Text),
    ("flannelEnabled", 11, Form::Number),
    ("flannelImage", 12, Form::Text),
    ("flannelKubeServiceHost", 17, Form::Text),
    ("flannelKubeServicePort", 18, Form::Text),
    ("cniName", 21, Form::Text),
];
const EXTRA: &[Field] = &[
    ("name", 1, Form::Text),
    ("url", 2, Form::Text),
    ("priority", 3, Form::Text),
    ("extraHeaders", 4, Form::Table),
    ("inlineManifest", 5, Form::Text),
];

pub(super) const SOURCES: &[ResourceSource] = &[
    ResourceSource {
        name: "BootstrapManifestsConfigs.kubernetes.talos.dev",
        proto: BOOTSTRAP,
        list: |context| component(context, "manifests", bootstrap_manifests),
    },
    ResourceSource {
        name: "ExtraManifestsConfigs.kubernetes.talos.dev",
        proto: &[("extraManifests", 1, Form::Each(&Form::Message(EXTRA)))],
        list: |context| component(context, "extra-manifests", extra_manifests),
    },
    ResourceSource {
        name: "Manifests.kubernetes.talos.dev",
        proto: &[("", 1, Form::Each(&Form::Message(&[("", 1, Form::Struct)])))],
        list: manifests,
    },
    ResourceSource {
        name: "ManifestStatuses.kubernetes.talos.dev",
        proto: &[("manifestsApplied", 1, Form::Each(&Form::Text))],
        list: |context| {
            if context.node.etcd.is_none() {
                return vec![];
            }
            let ids: Vec<String> = manifests(context).into_iter().map(|item| item.id).collect();
            vec![Item::new("manifests", json!({ "manifestsApplied": ids }))]
        },
    },
];

fn bootstrap_manifests(context: &ResourceContext<'_>, config: &AppliedConfig) -> Value {
    let facts = &config.facts;
    let version = &context.node.version;
    let balancer = config.flag("machine.features.kubePrism.enabled").then(|| {
        config.value("machine.features.kubePrism.port").as_u64().unwrap_or(7445).to_string()
    });
    let endpoint = || config.value("cluster.controlPlane.endpoint");
    let server = balancer.as_ref().map(|port| format!("https://127.0.0.1:{port}").into());
    let dns = dns_addresses(facts);
    let dns = |is_v6: bool| dns.iter().find(|dns| dns.contains(':') == is_v6);
    let mut spec = json!({
        "string": server.unwrap_or_else(endpoint),
        "clusterDomain": facts.dns_domain,
        "podCIDRs": facts.pod_subnets,
        "proxyEnabled": facts.has_proxy,
        "proxyImage": facts.proxy_image,
        "proxyArgs": kubernetes::proxy_args(facts),
        "coreDNSEnabled": facts.has_core_dns,
        "coreDNSImage": kubernetes::core_dns_image(version),
        "dnsServiceIP": dns(false).map(String::as_str).unwrap_or_default(),
        "dnsServiceIPv6": dns(true).map(String::as_str).unwrap_or_default(),
        "flannelEnabled": facts.cni == "flannel",
        "flannelImage": kubernetes::flannel_image(version),
        "flannelExtraArgs": [],
        "flannelKubeServiceHost": if balancer.is_some() { "127.0.0.1" } else { "" },
        "flannelKubeServicePort": balancer.unwrap_or_default(),
    });
    if version.is_at_least(13) {
        spec["flannelKubeNetworkPoliciesEnabled"] = false.into();
        spec["flannelKubeNetworkPoliciesImage"] = "".into();
        spec["cniName"] = facts.cni.as_str().into();
    }
    spec["podSecurityPolicyEnabled"] = false.into();
    spec["talosAPIServiceEnabled"] =
        config.flag("machine.features.kubernetesTalosAPIAccess.enabled").into();
    spec
}

/// Extra manifests of the config. The manifests of the CNI are applied early, all others last.
fn extra_manifests(_: &ResourceContext<'_>, config: &AppliedConfig) -> Value {
    let cni = config.value("cluster.network.cni.urls");
    let cni = cni.as_array().into_iter().flatten().filter_map(Value::as_str);
    let headers = table(config, "cluster.extraManifestHeaders");
    let by_url = |url: &str, priority: &str, headers: Map<String, Value>| {
        json!({
            "name": url, "url": url, "priority": priority, "extraHeaders": headers,
            "inlineManifest": "",
        })
    };
    let mut all: Vec<Value> = cni.map(|url| by_url(url, "05", Map::new())).collect();
    let urls = config.facts.extra_manifests.iter();
    all.extend(urls.map(|url| by_url(url, "99", headers.clone())));
    all.extend(config.facts.inline_manifests.iter().map(|(name, contents)| {
        json!({
            "name": name, "url": "", "priority": "99", "extraHeaders": {},
            "inlineManifest": contents,
        })
    }));
    json!({ "extraManifests": all })
}

/// Manifests that a control plane applies as soon as its API server answers.
fn manifests(context: &ResourceContext<'_>) -> Vec<Item> {
    let config = context.node.config.iter().filter(|config| config.facts.is_control_plane);
    let all = config.flat_map(|config| kubernetes::manifests(&config.facts, &context.node.version));
    all.map(|(id, objects)| {
        // Manifests of the config belong to another controller than the manifests of Talos.
        let is_extra = id.starts_with("99-");
        let owner = if is_extra { "k8s.ExtraManifestController" } else { "k8s.ManifestController" };
        Item::new(id, objects.into()).owned_by(owner)
    })
    .collect()
}
