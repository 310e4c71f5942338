//! DNS and time servers, and the node's own DNS server.

use std::net::IpAddr;

use serde_json::{Value, json};

use super::network::LAYERS;
use super::proto::Form;
use super::{Item, Kind, View};
use crate::config::Applied;

/// Address at which the node's DNS server listens for its own processes.
pub(super) const HOST_DNS: &str = "127.0.0.53";
/// Address on the loopback link at which it listens for pods.
pub(super) const HOST_DNS_FOR_PODS: &str = "169.254.116.108";

pub(super) const KINDS: &[Kind] = &[
    Kind {
        name: "ResolverStatuses.net.talos.dev",
        proto: &[
            ("dnsServers", 1, Form::Each(&Form::Address)),
            ("searchDomains", 2, Form::Each(&Form::Text)),
        ],
        list: |view| {
            let spec =
                json!({ "dnsServers": servers(view), "searchDomains": search_domains(view) });
            vec![Item::new("resolvers", spec)]
        },
    },
    Kind {
        name: "TimeServerStatuses.net.talos.dev",
        proto: &[("timeServers", 1, Form::Each(&Form::Text))],
        list: |view| {
            let servers = &view.node.network.time_servers;
            vec![Item::new("timeservers", json!({ "timeServers": servers }))]
        },
    },
    Kind {
        name: "ResolverSpecs.net.talos.dev",
        proto: &[
            ("dnsServers", 1, Form::Each(&Form::Address)),
            ("layer", 2, Form::Enum(LAYERS)),
            ("searchDomains", 3, Form::Each(&Form::Text)),
        ],
        list: |view| {
            let layer = view.node.network.nameserver_layer.name();
            let domains = search_domains(view);
            let spec =
                json!({ "dnsServers": servers(view), "layer": layer, "searchDomains": domains });
            vec![Item::new("resolvers", spec)]
        },
    },
    Kind {
        name: "TimeServerSpecs.net.talos.dev",
        proto: &[("timeServers", 1, Form::Each(&Form::Text)), ("layer", 2, Form::Enum(LAYERS))],
        list: |view| {
            let network = &view.node.network;
            let layer = network.time_server_layer.name();
            let spec = json!({ "timeServers": network.time_servers, "layer": layer });
            vec![Item::new("timeservers", spec)]
        },
    },
    Kind {
        name: "HostDNSConfigs.net.talos.dev",
        proto: &[("enabled", 1, Form::Number)],
        list: host_dns,
    },
];

pub(super) fn servers(view: &View<'_>) -> Vec<String> {
    view.node.network.nameservers.iter().map(IpAddr::to_string).collect()
}

/// Configured domains. Without any, Talos takes the domain of the host name.
pub(super) fn search_domains(view: &View<'_>) -> Vec<String> {
    let config = view.node.config.as_ref().or(view.node.partial.as_ref());
    let configured = config.map(|config| config.facts.search_domains.clone()).unwrap_or_default();
    let is_disabled =
        config.is_some_and(|config| config.flag("machine.network.disableSearchDomain"));
    let domain = &view.node.network.domain;
    if configured.is_empty() && !domain.is_empty() && !is_disabled {
        return vec![domain.clone()];
    }
    configured
}

pub(super) fn has_host_dns(config: &Applied) -> bool {
    config.flag("machine.features.hostDNS.enabled")
}

/// Whether pods use the node's DNS server, which then has an address for them on the loopback link.
pub(super) fn serves_pods(config: &Applied) -> bool {
    has_host_dns(config) && config.flag("machine.features.hostDNS.forwardKubeDNSToHost")
}

fn host_dns(view: &View<'_>) -> Vec<Item> {
    let Some(config) = &view.node.config else { return vec![] };
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
