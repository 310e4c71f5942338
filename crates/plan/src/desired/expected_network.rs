//! Network that a node must have according to its rendered machine config.

use std::net::IpAddr;

use serde::{Deserialize, Serialize};
use talmox_talos_config::secret::SecretText;
use talmox_talos_config::{Config, Release};
use talmox_yaml::Node as Yaml;

/// Hostname and addresses that a config gives to a node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExpectedNetwork {
    pub hostname: Option<String>,
    /// The links in the config. The same link may occur several times.
    pub cards: Vec<Card>,
    /// Shared addresses. Any control plane may hold such an address.
    pub shared: Vec<IpAddr>,
    /// Addresses of VLANs. A VLAN is a separate link.
    pub further: Vec<IpAddr>,
}

/// A link, in most cases a network card.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Card {
    pub name: CardName,
    pub addressing: Addressing,
}

/// How a config selects a link.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum CardName {
    /// MAC address of the link, in lower case.
    Mac(String),
    /// Name of the link, such as `eth0`.
    Link(String),
    /// A selector that only the node can evaluate.
    #[serde(rename = "selector")]
    Somehow,
}

/// Addresses of a link.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Addressing {
    pub is_dhcp: bool,
    pub fixed: Vec<IpAddr>,
}

impl ExpectedNetwork {
    /// Reads a rendered config. Parts that cannot be read are omitted. This does not happen in practice, because the config
    /// was validated before.
    pub fn of(config: &SecretText, talos_version: &str) -> Self {
        let release = Release::of(talos_version).unwrap_or_default();
        let mut shape = Self::default();
        let Ok(config) = Config::parse(config.expose(), release) else { return shape };
        for document in config.documents() {
            let (body, name) = (document.body(), document.name());
            match (document.kind(), name) {
                ("v1alpha1", _) => shape.add_machine(body),
                ("HostnameConfig", _) => shape.hostname = text(body, "hostname").or(shape.hostname),
                ("LinkConfig", Some(name)) => {
                    let fixed = items(at(body, "addresses"));
                    let fixed = fixed.iter().filter_map(|one| ip(&text(one, "address")?));
                    shape.add_link(name, Addressing { is_dhcp: false, fixed: fixed.collect() });
                }
                ("DHCPv4Config", Some(name)) => {
                    shape.add_link(name, Addressing { is_dhcp: true, fixed: vec![] });
                }
                ("VLANConfig", _) => {
                    let fixed = items(at(body, "addresses"));
                    shape.further.extend(fixed.iter().filter_map(|one| ip(&text(one, "address")?)));
                }
                ("Layer2VIPConfig", Some(name)) => shape.shared.extend(ip(name)),
                _ => {}
            }
        }
        shape
    }

    fn add_link(&mut self, name: &str, addressing: Addressing) {
        self.cards.push(Card { name: CardName::Link(name.to_owned()), addressing });
    }

    fn add_machine(&mut self, body: &Yaml) {
        let Some(network) = at(body, "machine").and_then(|machine| at(machine, "network")) else {
            return;
        };
        self.hostname = text(network, "hostname").or(self.hostname.take());
        for interface in items(at(network, "interfaces")) {
            let vlans = items(at(interface, "vlans"));
            for vlan in vlans {
                self.further.extend(texts(at(vlan, "addresses")).iter().filter_map(|one| ip(one)));
            }
            for holder in std::iter::once(interface).chain(vlans) {
                let vip = at(holder, "vip").and_then(|vip| text(vip, "ip"));
                self.shared.extend(vip.and_then(|vip| ip(&vip)));
            }
            if text(interface, "ignore").as_deref() != Some("true") {
                let fixed = texts(at(interface, "addresses")).into_iter();
                let fixed = fixed.chain(text(interface, "cidr"));
                let addressing = Addressing {
                    is_dhcp: text(interface, "dhcp").as_deref() == Some("true"),
                    fixed: fixed.filter_map(|one| ip(&one)).collect(),
                };
                self.cards.push(Card { name: card_name(interface), addressing });
            }
        }
    }
}

fn card_name(interface: &Yaml) -> CardName {
    if let Some(name) = text(interface, "interface") {
        return CardName::Link(name);
    }
    let selector = at(interface, "deviceSelector");
    match selector.and_then(|selector| text(selector, "hardwareAddr")) {
        Some(mac) if !mac.contains('*') => CardName::Mac(mac.to_lowercase()),
        _ => CardName::Somehow,
    }
}

fn at<'a>(node: &'a Yaml, key: &str) -> Option<&'a Yaml> {
    node.as_map().and_then(|map| map.get(key))
}

fn text(node: &Yaml, key: &str) -> Option<String> {
    at(node, key)?.as_str().map(str::to_owned)
}

fn items(node: Option<&Yaml>) -> &[Yaml] {
    node.and_then(Yaml::as_seq).map(|list| list.items.as_slice()).unwrap_or_default()
}

fn texts(node: Option<&Yaml>) -> Vec<String> {
    items(node).iter().filter_map(|item| item.as_str().map(str::to_owned)).collect()
}

/// Parses an address with or without a prefix length.
fn ip(text: &str) -> Option<IpAddr> {
    text.split('/').next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shape(text: &str) -> ExpectedNetwork {
        ExpectedNetwork::of(&SecretText::new(text), "v1.12.0")
    }

    fn ips(texts: &[&str]) -> Vec<IpAddr> {
        texts.iter().map(|text| text.parse().unwrap()).collect()
    }

    #[test]
    fn interfaces_of_the_machine_are_read() {
        let found = shape(
            "version: v1alpha1\nmachine:\n  network:\n    hostname: cp-1\n    interfaces:\n      \
             - deviceSelector: {hardwareAddr: \"02:AA:00:00:00:11\"}\n        \
               addresses: [10.0.0.11/24]\n        vip: {ip: 10.0.0.20}\n        \
               vlans: [{vlanId: 7, addresses: [10.7.0.11/24]}]\n      \
             - {interface: eth1, dhcp: true}\n      \
             - {interface: eth2, ignore: true, addresses: [10.9.0.1/24]}\n",
        );
        let card = |name, is_dhcp, fixed: &[&str]| Card {
            name,
            addressing: Addressing { is_dhcp, fixed: ips(fixed) },
        };
        assert_eq!(found.hostname.as_deref(), Some("cp-1"));
        assert_eq!((found.shared, found.further), (ips(&["10.0.0.20"]), ips(&["10.7.0.11"])));
        let first = CardName::Mac("02:aa:00:00:00:11".to_owned());
        let second = CardName::Link("eth1".to_owned());
        let desired = [card(first, false, &["10.0.0.11"]), card(second, true, &[])];
        assert_eq!(found.cards, desired);
    }

    #[test]
    fn documents_are_read_as_well() {
        let found = shape(
            "apiVersion: v1alpha1\nkind: HostnameConfig\nauto: off\nhostname: cp-1\n---\n\
             apiVersion: v1alpha1\nkind: LinkConfig\nname: eth0\naddresses:\n  \
             - address: 10.0.0.11/24\n---\n\
             apiVersion: v1alpha1\nkind: DHCPv4Config\nname: eth1\n---\n\
             apiVersion: v1alpha1\nkind: Layer2VIPConfig\nname: 10.0.0.20\nlink: eth0\n",
        );
        assert_eq!(found.hostname.as_deref(), Some("cp-1"));
        assert_eq!(found.shared, ips(&["10.0.0.20"]));
        let names: Vec<_> = found.cards.iter().map(|card| &card.name).collect();
        let link = |name: &str| CardName::Link(name.to_owned());
        assert_eq!(names, [&link("eth0"), &link("eth1")]);
        assert_eq!(found.cards[0].addressing.fixed, ips(&["10.0.0.11"]));
        assert!(found.cards[1].addressing.is_dhcp);
    }
}
