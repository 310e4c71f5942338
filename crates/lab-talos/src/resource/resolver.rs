//! DNS resolvers, time servers and the host DNS server of the node.

use std::net::IpAddr;

use serde_json::{Value, json};

use super::network::LAYERS;
use super::proto::Form;
use super::{Item, ResourceContext, ResourceSource};
use crate::config::AppliedConfig;

/// Address at which the host DNS server listens for processes of the node.
pub(super) const HOST_DNS: &str = "127.0.0.53";
/// Address on the loopback link at which the host DNS server listens for pods.
pub(super) const HOST_DNS_FOR_PODS: &str = "169.254.116.108";

pub(super) const SOURCES: &[ResourceSource] = &[
    ResourceSource {
        name: "ResolverStatuses.net.talos.dev",
        proto: &[
            ("dnsServers", 1, Form::Each(&Form::Address)),
            ("searchDomains", 2, Form::Each(&Form::Text)),
        ],
        list: |context| {
            let spec =
                json!({ "dnsServers": servers(context), "searchDomains": search_domains(context) });
            vec![Item::new("resolvers", spec)]
        },
    },
    ResourceSource {
        name: "TimeServerStatuses.net.talos.dev",
        proto: &[("timeServers", 1, Form::Each(&Form::Text))],
        list: |context| {
            let servers = &context.node.network.time_servers;
            vec![Item::new("timeservers", json!({ "timeServers": servers }))]
        },
    },
    ResourceSource {
        name: "ResolverSpecs.net.talos.dev",
        proto: &[
            ("dnsServers", 1, Form::Each(&Form::Address)),
            ("layer", 2, Form::Enum(LAYERS)),
            ("searchDomains", 3, Form::Each(&Form::Text)),
        ],
        list: |context| {
            let layer = context.node.network.nameserver_layer.name();
            let domains = search_domains(context);
            let spec =
                json!({ "dnsServers": servers(context), "layer": layer, "searchDomains": domains });
            vec![Item::new("resolvers", spec)]
        },
    },
    ResourceSource {
        name: "TimeServerSpecs.net.talos.dev",
        proto: &[("timeServers", 1, Form::Each(&Form::Text)), ("layer", 2, Form::Enum(LAYERS))],
        list: |context| {
            let network = &context.node.network;
            let layer = network.time_server_layer.name();
            let spec = json!({ "timeServers": network.time_servers, "layer": layer });
            vec![Item::new("timeservers", spec)]
        },
    },
    ResourceSource {
        name: "HostDNSConfigs.net.talos.dev",
        proto: &[("enabled", 1, Form::Number)],
        list: host_dns,
    },
];

pub(super) fn servers(context: &ResourceContext<'_>) -> Vec<String> {
    context.node.network.nameservers.iter().map(IpAddr::to_string).collect()
}

/// Search domains of the config, or else the domain of the host name.
pub(super) fn search_domains(context: &ResourceContext<'_>) -> Vec<String> {
    let config = context.node.config.as_ref().or(context.node.partial.as_ref());
    let configured = config.map(|config| config.facts.search_domains.clone()).unwrap_or_default();
    let is_disabled =
        config.is_some_and(|config| config.flag("machine.network.disableSearchDomain"));
    let domain = &context.node.network.domain;
    if configured.is_empty() && !domain.is_empty() && !is_disabled {
        return vec![domain.clone()];
    }
    configured
}

pub(super) fn has_host_dns(config: &AppliedConfig) -> bool {
    config.flag("machine.features.hostDNS.enabled")
}

/// Whether pods use the host DNS server. If they do, the server has an address for pods on the loopback link.
pub(super) fn serves_pods(config: &AppliedConfig) -> bool {
    has_host_dns(config) && config.flag("machine.features.hostDNS.forwardKubeDNSToHost")
}

fn host_dns(context: &ResourceContext<'_>) -> Vec<Item> {
    let Some(config) = &context.node.config else { return vec![] };
    let mut listen: Vec<String> = vec![];
    if has_host_dns(config) {
        listen.push(format!("{HOST_DNS}:53"));
    }
    if serves_pods(config) {
        listen.push(format!("{HOST_DNS_FOR_PODS}:53"));
    }
    let mut spec: Value = json!({ "enabled": has_host_dns(config), "listenAddresses": listen });
    if config.flag("machine.features.hostDNS.resolveMemberNames") {
        spec["resolveMemberNames"] = true.into();
    }
    vec![Item::new("config", spec)]
}
