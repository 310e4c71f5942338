//! Network links of a machine config, from `machine.network.interfaces` and from link documents.

use std::net::IpAddr;

use talmox_talos_config::Config;
use talmox_talos_config::cel::link_mac;
use talmox_talos_config::network::Prefix;
use talmox_yaml::{Map, Node as Yaml};

use super::{prefix, text};

/// Default protocol of a VLAN.
pub(crate) const DEFAULT_VLAN_PROTOCOL: &str = "802.1q";

/// Metric of a route without a metric of its own.
pub(crate) const ROUTE_METRIC: u32 = 1024;

/// Settings of one network link.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct LinkFacts {
    pub(crate) selector: LinkSelector,
    /// Parameters to create a virtual link; `None` for a network card, and for a link that another entry creates.
    pub(crate) virtual_link: Option<VirtualLink>,
    pub(crate) is_dhcp: bool,
    pub(crate) addresses: Vec<Prefix>,
    /// Gateways of default routes, each with the metric of its route.
    pub(crate) gateways: Vec<(u32, IpAddr)>,
    pub(crate) mtu: Option<u32>,
    pub(crate) vip: Option<IpAddr>,
}

/// Selector of the link that an entry of the config applies to.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) enum LinkSelector {
    #[default]
    Nothing,
    Name(String),
    /// MAC address of a network card, in lower case.
    Mac(String),
    /// VLAN on another link. The name of the VLAN contains the name of that link.
    Vlan(Box<Self>, u16),
}

/// Creation parameters of a virtual link.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum VirtualLink {
    Vlan { parent: LinkSelector, id: u16, protocol: String },
    Bond { members: Vec<LinkSelector>, mode: String },
    Bridge { members: Vec<LinkSelector> },
}

pub(super) fn of(config: &Config) -> Vec<LinkFacts> {
    let mut links = vec![];
    let legacy = config.v1alpha1();
    let interfaces = legacy.and_then(|d| d.get(&["machine", "network", "interfaces"]));
    for map in items(interfaces).filter_map(Yaml::as_map) {
        let facts = interface_facts(map);
        let vlans = items(map.get("vlans")).filter_map(Yaml::as_map);
        let vlans: Vec<_> = vlans.filter_map(|vlan| vlan_facts(&facts.selector, vlan)).collect();
        links.push(facts);
        links.extend(vlans);
    }
    for document in config.documents() {
        let name = document.name().unwrap_or_default().to_owned();
        match document.kind() {
            "LinkConfig" => links.push(link_document(name, document.body(), None)),
            "VLANConfig" | "BondConfig" | "BridgeConfig" => {
                let virtual_link = virtual_link_document(document.kind(), document.body());
                links.push(link_document(name, document.body(), virtual_link));
            }
            "DHCPv4Config" => links.push(LinkFacts {
                selector: LinkSelector::Name(name),
                is_dhcp: true,
                ..LinkFacts::default()
            }),
            "Layer2VIPConfig" => links.push(LinkFacts {
                selector: LinkSelector::Name(text(document.get(&["link"])).unwrap_or_default()),
                vip: name.parse().ok(),
                ..LinkFacts::default()
            }),
            _ => {}
        }
    }
    let aliases = aliases(config);
    for link in &mut links {
        link.resolve_aliases(&aliases);
    }
    links
}

/// Whether the config has link documents. If it has, no network card uses DHCP by default.
pub(super) fn has_link_documents(config: &Config) -> bool {
    let is_link_kind = |kind: &str| {
        matches!(
            kind,
            "LinkConfig"
                | "VLANConfig"
                | "BondConfig"
                | "BridgeConfig"
                | "DHCPv4Config"
                | "DHCPv6Config"
                | "DummyLinkConfig"
                | "WireguardConfig"
        )
    };
    config.documents().any(|document| is_link_kind(document.kind()))
}

/// Alias names of network cards, each with the MAC address that selects the card.
pub(super) fn aliases(config: &Config) -> Vec<(String, LinkSelector)> {
    let documents = config.documents().filter(|document| document.kind() == "LinkAliasConfig");
    let alias = documents.filter_map(|document| {
        let wanted = text(document.get(&["selector", "match"]))?;
        let mac = link_mac(&wanted)?.to_lowercase();
        Some((document.name()?.to_owned(), LinkSelector::Mac(mac)))
    });
    alias.collect()
}

impl LinkFacts {
    fn resolve_aliases(&mut self, aliases: &[(String, LinkSelector)]) {
        self.selector.resolve_aliases(aliases);
        match &mut self.virtual_link {
            Some(VirtualLink::Vlan { parent, .. }) => parent.resolve_aliases(aliases),
            Some(VirtualLink::Bond { members, .. } | VirtualLink::Bridge { members }) => {
                for member in members {
                    member.resolve_aliases(aliases);
                }
            }
            None => {}
        }
    }
}

impl LinkSelector {
    fn resolve_aliases(&mut self, aliases: &[(String, Self)]) {
        match self {
            Self::Name(name) => {
                if let Some((_, card)) = aliases.iter().find(|(alias, _)| alias == name) {
                    *self = card.clone();
                }
            }
            Self::Vlan(parent, _) => parent.resolve_aliases(aliases),
            Self::Nothing | Self::Mac(_) => {}
        }
    }
}

/// Settings that both interfaces and VLANs have.
fn common_facts(selector: LinkSelector, map: &Map) -> LinkFacts {
    let vip = map.get("vip").and_then(Yaml::as_map).and_then(|vip| text(vip.get("ip")));
    let mut addresses = strings(map.get("addresses"));
    addresses.extend(text(map.get("cidr")));
    LinkFacts {
        selector,
        virtual_link: None,
        is_dhcp: text(map.get("dhcp")).is_some_and(|dhcp| dhcp == "true"),
        addresses: addresses.iter().filter_map(|text| prefix(text)).collect(),
        gateways: gateways(items(map.get("routes")), "network"),
        mtu: text(map.get("mtu")).and_then(|mtu| mtu.parse().ok()),
        vip: vip.and_then(|vip| vip.parse().ok()),
    }
}

fn interface_facts(map: &Map) -> LinkFacts {
    let by_name = text(map.get("interface")).map(LinkSelector::Name);
    let selector = by_name.or_else(|| device(map.get("deviceSelector")?)).unwrap_or_default();
    let section = |key: &str| map.get(key).and_then(Yaml::as_map);
    let bond = section("bond").map(|bond| {
        let selected = items(bond.get("deviceSelectors")).filter_map(device);
        let members = names(bond.get("interfaces")).into_iter().chain(selected).collect();
        VirtualLink::Bond { members, mode: bond_mode(bond.get("mode")) }
    });
    let bridge = section("bridge")
        .map(|bridge| VirtualLink::Bridge { members: names(bridge.get("interfaces")) });
    LinkFacts { virtual_link: bond.or(bridge), ..common_facts(selector, map) }
}

fn vlan_facts(parent: &LinkSelector, map: &Map) -> Option<LinkFacts> {
    let id = text(map.get("vlanId"))?.parse().ok()?;
    let selector = LinkSelector::Vlan(Box::new(parent.clone()), id);
    let virtual_link = VirtualLink::Vlan {
        parent: parent.clone(),
        id,
        protocol: DEFAULT_VLAN_PROTOCOL.to_owned(),
    };
    Some(LinkFacts { virtual_link: Some(virtual_link), ..common_facts(selector, map) })
}

/// Network card that a device selector selects by its MAC address.
fn device(selector: &Yaml) -> Option<LinkSelector> {
    let selector = selector.as_map()?;
    let mac = text(selector.get("hardwareAddr").or_else(|| selector.get("permanentAddr")))?;
    Some(LinkSelector::Mac(mac.to_lowercase()))
}

fn virtual_link_document(kind: &str, body: &Yaml) -> Option<VirtualLink> {
    let map = body.as_map()?;
    let members = || names(map.get("links"));
    Some(match kind {
        "VLANConfig" => VirtualLink::Vlan {
            parent: LinkSelector::Name(text(map.get("parent")).unwrap_or_default()),
            id: text(map.get("vlanID"))?.parse().ok()?,
            protocol: text(map.get("vlanMode")).unwrap_or_else(|| DEFAULT_VLAN_PROTOCOL.to_owned()),
        },
        "BondConfig" => {
            VirtualLink::Bond { members: members(), mode: bond_mode(map.get("bondMode")) }
        }
        _ => VirtualLink::Bridge { members: members() },
    })
}

fn bond_mode(mode: Option<&Yaml>) -> String {
    text(mode).filter(|mode| !mode.is_empty()).unwrap_or_else(|| "balance-rr".to_owned())
}

fn link_document(name: String, body: &Yaml, virtual_link: Option<VirtualLink>) -> LinkFacts {
    let at = |key: &str| body.as_map().and_then(|map| map.get(key));
    LinkFacts {
        selector: LinkSelector::Name(name),
        virtual_link,
        addresses: items(at("addresses"))
            .filter_map(|item| prefix(&text(item.as_map()?.get("address"))?))
            .collect(),
        gateways: gateways(items(at("routes")), "destination"),
        mtu: text(at("mtu")).and_then(|mtu| mtu.parse().ok()),
        ..LinkFacts::default()
    }
}

/// Gateways of default routes, each with the metric of its route.
fn gateways<'a>(routes: impl Iterator<Item = &'a Yaml>, destination: &str) -> Vec<(u32, IpAddr)> {
    let default = |route: &'a Yaml| {
        let map = route.as_map()?;
        let to = text(map.get(destination)).unwrap_or_default();
        if !matches!(to.as_str(), "" | "0.0.0.0/0" | "::/0") {
            return None;
        }
        let metric = text(map.get("metric")).and_then(|metric| metric.parse().ok());
        Some((metric.unwrap_or(ROUTE_METRIC), text(map.get("gateway"))?.parse().ok()?))
    };
    routes.filter_map(default).collect()
}

fn items(node: Option<&Yaml>) -> impl Iterator<Item = &Yaml> {
    node.and_then(Yaml::as_seq).into_iter().flat_map(|list| &list.items)
}

fn strings(node: Option<&Yaml>) -> Vec<String> {
    items(node).filter_map(|item| item.as_str().map(str::to_owned)).collect()
}

fn names(node: Option<&Yaml>) -> Vec<LinkSelector> {
    strings(node).into_iter().map(LinkSelector::Name).collect()
}
