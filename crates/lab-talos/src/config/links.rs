//! The network links that a config speaks of, in either of its two forms.

use std::net::IpAddr;

use talmox_talos_config::Config;
use talmox_talos_config::network::Prefix;
use talmox_yaml::{Map, Node as Yaml};

use super::{prefix, text};

/// The protocol of VLANs that say nothing else.
pub(crate) const TAGGED: &str = "802.1q";

/// What a config says about one link.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct LinkFacts {
    pub(crate) selector: LinkSelector,
    /// What it is made of; nothing for a card, and where this speaks of a link that is made elsewhere.
    pub(crate) made: Option<Made>,
    pub(crate) is_dhcp: bool,
    pub(crate) addresses: Vec<Prefix>,
    pub(crate) gateways: Vec<IpAddr>,
    pub(crate) mtu: Option<u32>,
    pub(crate) vip: Option<IpAddr>,
}

/// Which link is meant.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) enum LinkSelector {
    #[default]
    Nothing,
    Name(String),
    /// A card, in lower case.
    Mac(String),
    /// A VLAN of another link, which is named after that one.
    Vlan(Box<Self>, u16),
}

/// How a link that is no card comes about.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Made {
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
                let made = made_document(document.kind(), document.body());
                links.push(link_document(name, document.body(), made));
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
        link.unalias(&aliases);
    }
    links
}

/// Whether documents speak of links: then no card asks for an address of its own accord.
pub(super) fn are_documents(config: &Config) -> bool {
    let speaks = |kind: &str| {
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
    config.documents().any(|document| speaks(document.kind()))
}

/// Other names for cards, as far as they are told apart by their MAC.
pub(super) fn aliases(config: &Config) -> Vec<(String, LinkSelector)> {
    let documents = config.documents().filter(|document| document.kind() == "LinkAliasConfig");
    let alias = documents.filter_map(|document| {
        let wanted = text(document.get(&["selector", "match"]))?;
        let (left, right) = wanted.split_once("==")?;
        let is_mac = matches!(left.trim(), "mac(link.permanent_addr)" | "mac(link.hardware_addr)");
        let mac = right.trim().trim_matches(['"', '\'']).to_lowercase();
        is_mac.then(|| Some((document.name()?.to_owned(), LinkSelector::Mac(mac))))?
    });
    alias.collect()
}

impl LinkFacts {
    fn unalias(&mut self, aliases: &[(String, LinkSelector)]) {
        self.selector.unalias(aliases);
        match &mut self.made {
            Some(Made::Vlan { parent, .. }) => parent.unalias(aliases),
            Some(Made::Bond { members, .. } | Made::Bridge { members }) => {
                for member in members {
                    member.unalias(aliases);
                }
            }
            None => {}
        }
    }
}

impl LinkSelector {
    fn unalias(&mut self, aliases: &[(String, Self)]) {
        match self {
            Self::Name(name) => {
                if let Some((_, card)) = aliases.iter().find(|(alias, _)| alias == name) {
                    *self = card.clone();
                }
            }
            Self::Vlan(parent, _) => parent.unalias(aliases),
            Self::Nothing | Self::Mac(_) => {}
        }
    }
}

/// What stands under an interface and under a VLAN alike.
fn common_facts(selector: LinkSelector, map: &Map) -> LinkFacts {
    let vip = map.get("vip").and_then(Yaml::as_map).and_then(|vip| text(vip.get("ip")));
    let mut addresses = strings(map.get("addresses"));
    addresses.extend(text(map.get("cidr")));
    LinkFacts {
        selector,
        made: None,
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
    let made = |key: &str| map.get(key).and_then(Yaml::as_map);
    let bond = made("bond").map(|bond| {
        let selected = items(bond.get("deviceSelectors")).filter_map(device);
        let members = names(bond.get("interfaces")).into_iter().chain(selected).collect();
        Made::Bond { members, mode: bond_mode(bond.get("mode")) }
    });
    let bridge =
        made("bridge").map(|bridge| Made::Bridge { members: names(bridge.get("interfaces")) });
    LinkFacts { made: bond.or(bridge), ..common_facts(selector, map) }
}

fn vlan_facts(parent: &LinkSelector, map: &Map) -> Option<LinkFacts> {
    let id = text(map.get("vlanId"))?.parse().ok()?;
    let selector = LinkSelector::Vlan(Box::new(parent.clone()), id);
    let made = Made::Vlan { parent: parent.clone(), id, protocol: TAGGED.to_owned() };
    Some(LinkFacts { made: Some(made), ..common_facts(selector, map) })
}

/// The card that a selector of devices means.
fn device(selector: &Yaml) -> Option<LinkSelector> {
    let selector = selector.as_map()?;
    let mac = text(selector.get("hardwareAddr").or_else(|| selector.get("permanentAddr")))?;
    Some(LinkSelector::Mac(mac.to_lowercase()))
}

fn made_document(kind: &str, body: &Yaml) -> Option<Made> {
    let map = body.as_map()?;
    let members = || names(map.get("links"));
    Some(match kind {
        "VLANConfig" => Made::Vlan {
            parent: LinkSelector::Name(text(map.get("parent")).unwrap_or_default()),
            id: text(map.get("vlanID"))?.parse().ok()?,
            protocol: text(map.get("vlanMode")).unwrap_or_else(|| TAGGED.to_owned()),
        },
        "BondConfig" => Made::Bond { members: members(), mode: bond_mode(map.get("bondMode")) },
        _ => Made::Bridge { members: members() },
    })
}

fn bond_mode(mode: Option<&Yaml>) -> String {
    text(mode).filter(|mode| !mode.is_empty()).unwrap_or_else(|| "balance-rr".to_owned())
}

fn link_document(name: String, body: &Yaml, made: Option<Made>) -> LinkFacts {
    let at = |key: &str| body.as_map().and_then(|map| map.get(key));
    LinkFacts {
        selector: LinkSelector::Name(name),
        made,
        addresses: items(at("addresses"))
            .filter_map(|item| prefix(&text(item.as_map()?.get("address"))?))
            .collect(),
        gateways: gateways(items(at("routes")), "destination"),
        mtu: text(at("mtu")).and_then(|mtu| mtu.parse().ok()),
        ..LinkFacts::default()
    }
}

/// The gateways of default routes.
fn gateways<'a>(routes: impl Iterator<Item = &'a Yaml>, destination: &str) -> Vec<IpAddr> {
    let default = |route: &'a Yaml| {
        let map = route.as_map()?;
        let to = text(map.get(destination)).unwrap_or_default();
        if !matches!(to.as_str(), "" | "0.0.0.0/0" | "::/0") {
            return None;
        }
        text(map.get("gateway"))?.parse().ok()
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
