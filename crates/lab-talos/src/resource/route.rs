//! Routes in the routing tables of the kernel.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use serde_json::json;
use talmox_talos_config::network::Prefix;

use super::network::{FAMILIES, SCOPES, all, family, index};
use super::proto::{Field, Form};
use super::{Item, ResourceContext, ResourceSource};
use crate::link::Link;

const TYPES: &[(&str, u64)] = &[("unicast", 1), ("local", 2), ("broadcast", 3), ("multicast", 5)];
const ROUTE: &[Field] = &[
    ("family", 1, Form::Enum(FAMILIES)),
    ("dst", 2, Form::Prefix),
    ("src", 3, Form::Address),
    ("gateway", 4, Form::Address),
    ("outLinkIndex", 5, Form::Number),
    ("outLinkName", 6, Form::Text),
    ("table", 7, Form::Enum(&[("main", 254), ("local", 255)])),
    ("priority", 8, Form::Number),
    ("scope", 9, Form::Enum(SCOPES)),
    ("type", 10, Form::Enum(TYPES)),
    ("protocol", 12, Form::Enum(&[("kernel", 2), ("boot", 3), ("static", 4)])),
];
/// Metric of routes that Talos creates.
const METRIC: usize = 1024;
/// Metric of IPv6 network routes that the kernel creates.
const KERNEL_METRIC_V6: usize = 256;

pub(super) const SOURCES: &[ResourceSource] =
    &[ResourceSource { name: "RouteStatuses.net.talos.dev", proto: ROUTE, list: routes }];

/// Route in a routing table of the kernel.
struct Route {
    link: String,
    destination: Option<Prefix>,
    source: Option<IpAddr>,
    gateway: Option<IpAddr>,
    table: &'static str,
    kind: &'static str,
    scope: &'static str,
    protocol: &'static str,
    metric: usize,
}

impl Route {
    /// Route that the kernel adds for an address.
    fn kernel(link: &str, to: Option<Prefix>, kind: &'static str, scope: &'static str) -> Self {
        Self {
            link: link.to_owned(),
            destination: to,
            source: None,
            gateway: None,
            table: if kind == "unicast" { "main" } else { "local" },
            kind,
            scope,
            protocol: "kernel",
            metric: 0,
        }
    }

    fn family(&self) -> &'static str {
        let gateway = self.gateway.and_then(|gateway| Prefix::new(gateway, 0));
        self.destination.or(gateway).map_or("inet4", family)
    }

    /// Resource id. The id contains the table unless it is the main table, and the link only for IPv6 routes.
    fn id(&self) -> String {
        let text = |part: Option<String>| part.unwrap_or_default();
        let family = self.family();
        let table = if self.table == "main" { String::new() } else { format!("{}/", self.table) };
        let link = if family == "inet6" { format!("{}/", self.link) } else { String::new() };
        let gateway = text(self.gateway.map(|gateway| gateway.to_string()));
        let destination = text(self.destination.map(|prefix| prefix.to_string()));
        format!("{table}{link}{family}/{gateway}/{destination}/{}", self.metric)
    }

    fn to_item(&self, context: &ResourceContext<'_>) -> Item {
        let address = |address: Option<IpAddr>| address.map(|a| a.to_string()).unwrap_or_default();
        let spec = json!({
            "family": self.family(),
            "dst": self.destination.map(|prefix| prefix.to_string()).unwrap_or_default(),
            "src": address(self.source),
            "gateway": address(self.gateway),
            "outLinkIndex": index(context, &self.link),
            "outLinkName": self.link,
            "table": self.table,
            "priority": self.metric,
            "scope": self.scope,
            "type": self.kind,
            "flags": "",
            "protocol": self.protocol,
        });
        Item::new(self.id(), spec)
    }
}

fn routes(context: &ResourceContext<'_>) -> Vec<Item> {
    let mut routes = defaults(context);
    for (link, prefix) in all(context) {
        match prefix.address() {
            IpAddr::V4(address) => of_v4(&mut routes, &link, prefix, address),
            IpAddr::V6(address) => of_v6(&mut routes, &link, prefix, address),
        }
    }
    let mut items: Vec<Item> = vec![];
    for item in routes.iter().map(|route| route.to_item(context)) {
        // Two addresses in the same network share the route to that network.
        if !items.iter().any(|known| known.id == item.id) {
            items.push(item);
        }
    }
    items
}

/// Whether the node has a default route.
pub(super) fn has_default(context: &ResourceContext<'_>) -> bool {
    !defaults(context).is_empty()
}

fn defaults(context: &ResourceContext<'_>) -> Vec<Route> {
    let network = &context.node.network;
    let mut routes = vec![];
    for (order, gateway) in network.gateways.iter().enumerate() {
        let through = |link: &&Link| link.addresses.iter().any(|(own, _)| own.contains(*gateway));
        let Some(link) = network.links.iter().find(through) else { continue };
        // The source address of a default route from a DHCP lease is the leased address.
        let lease = network.leases.iter().find(|lease| lease.router_in_use == Some(*gateway));
        routes.push(Route {
            source: lease.map(|lease| lease.address.address()),
            gateway: Some(*gateway),
            protocol: if lease.is_some() { "boot" } else { "static" },
            metric: METRIC + order,
            ..Route::kernel(&link.name, None, "unicast", "global")
        });
    }
    routes
}

fn of_v4(routes: &mut Vec<Route>, link: &str, prefix: Prefix, address: Ipv4Addr) {
    let source = Some(IpAddr::V4(address));
    let mut add = |to: Option<Prefix>, kind, scope| {
        routes.push(Route { source, ..Route::kernel(link, to, kind, scope) });
    };
    add(Prefix::new(prefix.address(), 32), "local", "host");
    if prefix.length() > 30 {
        return;
    }
    let hosts = u32::MAX >> prefix.length();
    let network = Ipv4Addr::from(u32::from(address) & !hosts);
    let last = Ipv4Addr::from(u32::from(address) | hosts);
    // All addresses in the network of the loopback link are local.
    let (kind, scope) = if link == "lo" { ("local", "host") } else { ("unicast", "link") };
    add(Prefix::new(network.into(), prefix.length()), kind, scope);
    add(Prefix::new(last.into(), 32), "broadcast", "link");
}

fn of_v6(routes: &mut Vec<Route>, link: &str, prefix: Prefix, address: Ipv6Addr) {
    let mut add = |to: Option<Prefix>, kind, metric| {
        routes.push(Route { metric, ..Route::kernel(link, to, kind, "global") });
    };
    add(Prefix::new(prefix.address(), 128), "local", 0);
    if link == "lo" {
        return;
    }
    if prefix.length() < 128 {
        let hosts = u128::MAX >> prefix.length();
        let network = Ipv6Addr::from(u128::from(address) & !hosts);
        add(Prefix::new(network.into(), prefix.length()), "unicast", KERNEL_METRIC_V6);
    }
    let multicast = Ipv6Addr::new(0xff00, 0, 0, 0, 0, 0, 0, 0);
    add(Prefix::new(multicast.into(), 8), "multicast", KERNEL_METRIC_V6);
}
