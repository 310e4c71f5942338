//! Routes, resolvers and time servers.

use serde_json::json;

use super::network::{FAMILIES, SCOPES, index};
use super::proto::{Field, Form};
use super::{Item, KIND, Kind, View};
use crate::talos::link::Link;

const ROUTE: &[Field] = &[
    ("family", 1, Form::Enum(FAMILIES)),
    ("dst", 2, Form::Prefix),
    ("gateway", 4, Form::Address),
    ("outLinkIndex", 5, Form::Number),
    ("outLinkName", 6, Form::Text),
    ("table", 7, Form::Enum(&[("main", 254)])),
    ("priority", 8, Form::Number),
    ("scope", 9, Form::Enum(SCOPES)),
    ("type", 10, Form::Enum(&[("unicast", 1)])),
    ("protocol", 12, Form::Enum(&[("boot", 3), ("static", 4)])),
];

pub(super) const KINDS: &[Kind] = &[
    Kind {
        name: "RouteStatuses.net.talos.dev",
        namespace: "network",
        aliases: &["route", "routes"],
        columns: &[
            ("Destination", "{.dst}"),
            ("Gateway", "{.gateway}"),
            ("Link", "{.outLinkName}"),
            ("Metric", "{.priority}"),
        ],
        proto: ROUTE,
        list: routes,
        ..KIND
    },
    Kind {
        name: "ResolverStatuses.net.talos.dev",
        namespace: "network",
        aliases: &["resolvers"],
        columns: &[("Resolvers", "{.dnsServers}"), ("Search Domains", "{.searchDomains}")],
        proto: &[
            ("dnsServers", 1, Form::Each(&Form::Address)),
            ("searchDomains", 2, Form::Each(&Form::Text)),
        ],
        list: |view| {
            let servers = view.node.network.nameservers.iter().map(ToString::to_string);
            let servers: Vec<String> = servers.collect();
            vec![Item::new("resolvers", json!({ "dnsServers": servers, "searchDomains": [] }))]
        },
        ..KIND
    },
    Kind {
        name: "TimeServerStatuses.net.talos.dev",
        namespace: "network",
        aliases: &["timeserver", "timeservers"],
        columns: &[("Timeservers", "{.timeServers}")],
        proto: &[("timeServers", 1, Form::Each(&Form::Text))],
        list: |_| vec![Item::new("timeservers", json!({ "timeServers": ["time.cloudflare.com"] }))],
        ..KIND
    },
];

fn routes(view: &View<'_>) -> Vec<Item> {
    let network = &view.node.network;
    let mut items = vec![];
    for (order, gateway) in network.gateways.iter().enumerate() {
        let through = |link: &&Link| link.addresses.iter().any(|(own, _)| own.contains(*gateway));
        let Some(link) = network.links.iter().find(through) else { continue };
        let family = if gateway.is_ipv4() { "inet4" } else { "inet6" };
        let priority = 1024 + order;
        let spec = json!({
            "family": family, "dst": "", "src": "", "gateway": gateway.to_string(),
            "outLinkIndex": index(view, &link.name), "outLinkName": link.name, "table": "main",
            "priority": priority, "scope": "global", "type": "unicast", "flags": "", "protocol": "static",
        });
        items.push(Item::new(format!("{}/{family}/{gateway}//{priority}", link.name), spec));
    }
    items
}
