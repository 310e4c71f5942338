//! The network links that a config speaks of, in either of its two forms.

use std::net::IpAddr;

use talmox_talos_config::Config;
use talmox_talos_config::network::Prefix;
use talmox_yaml::Node as Yaml;

use super::{prefix, text};

/// What a config says about one link.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct LinkFacts {
    pub(crate) selector: LinkSelector,
    pub(crate) is_dhcp: bool,
    pub(crate) addresses: Vec<Prefix>,
    pub(crate) gateways: Vec<IpAddr>,
    pub(crate) mtu: Option<u32>,
    pub(crate) vip: Option<IpAddr>,
}

/// Which card is meant.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) enum LinkSelector {
    #[default]
    Nothing,
    Name(String),
    /// In lower case.
    Mac(String),
}

pub(super) fn of(config: &Config) -> Vec<LinkFacts> {
    let mut links = vec![];
    let legacy = config.v1alpha1();
    let interfaces = legacy.and_then(|d| d.get(&["machine", "network", "interfaces"]));
    for interface in
        interfaces.and_then(Yaml::as_seq).map(|list| list.items.iter()).into_iter().flatten()
    {
        links.extend(interface_facts(interface));
    }
    for document in config.documents() {
        let name = document.name().unwrap_or_default().to_owned();
        match document.kind() {
            "LinkConfig" => links.push(link_document(name, document.body())),
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
    links
}

fn interface_facts(interface: &Yaml) -> Option<LinkFacts> {
    let map = interface.as_map()?;
    let by_name = text(map.get("interface")).map(LinkSelector::Name);
    let by_mac = || {
        let selector = map.get("deviceSelector")?.as_map()?;
        let mac = text(selector.get("hardwareAddr").or_else(|| selector.get("permanentAddr")))?;
        Some(LinkSelector::Mac(mac.to_lowercase()))
    };
    let routes = map.get("routes").and_then(Yaml::as_seq);
    let vip = map.get("vip").and_then(Yaml::as_map).and_then(|vip| text(vip.get("ip")));
    let mut addresses = strings(map.get("addresses"));
    addresses.extend(text(map.get("cidr")));
    Some(LinkFacts {
        selector: by_name.or_else(by_mac).unwrap_or_default(),
        is_dhcp: text(map.get("dhcp")).is_some_and(|dhcp| dhcp == "true"),
        addresses: addresses.iter().filter_map(|text| prefix(text)).collect(),
        gateways: gateways(routes.map(|list| list.items.iter()).into_iter().flatten(), "network"),
        mtu: text(map.get("mtu")).and_then(|mtu| mtu.parse().ok()),
        vip: vip.and_then(|vip| vip.parse().ok()),
    })
}

fn link_document(name: String, body: &Yaml) -> LinkFacts {
    let map = body.as_map();
    let items = |key: &str| {
        let list = map.and_then(|map| map.get(key)).and_then(Yaml::as_seq);
        list.map(|list| list.items.iter()).into_iter().flatten()
    };
    LinkFacts {
        selector: LinkSelector::Name(name),
        addresses: items("addresses")
            .filter_map(|item| prefix(&text(item.as_map()?.get("address"))?))
            .collect(),
        gateways: gateways(items("routes"), "destination"),
        mtu: map.and_then(|map| text(map.get("mtu"))).and_then(|mtu| mtu.parse().ok()),
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

fn strings(node: Option<&Yaml>) -> Vec<String> {
    let list = node.and_then(Yaml::as_seq);
    list.map(|list| list.items.iter().filter_map(|item| item.as_str().map(str::to_owned)).collect())
        .unwrap_or_default()
}
