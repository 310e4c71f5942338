//! Comparison of the network of a node with its config.

use std::net::IpAddr;

use talmox_plan::desired::{Addressing, Card, CardName, ExpectedNetwork};

use super::link::NodeLink;
use super::verdict::{NodeNetwork, WaitReason, not_yet};

/// Hint for an address that is not in the config.
const TWO_ADDRESSES: &str = "addresses from the first boot of a node stay in addition to those of its config: use the same address in \
                             the inventory and in patches, destroy its VM, and run the same command again";

/// Compares the links of a node with the expected network. Additional IPv6 addresses and shared addresses on a link are ignored,
/// because routers assign IPv6 addresses, and shared addresses move between nodes.
pub(super) fn compare(shape: &ExpectedNetwork, links: &[NodeLink]) -> NodeNetwork {
    for card in &shape.cards {
        if let Some(missing) = missing(card, links) {
            return not_yet(missing);
        }
    }
    // A card with a selector that cannot be evaluated here may be any of the links.
    let is_known = shape.cards.iter().all(|card| card.name != CardName::Somehow);
    let mut lacking = None;
    for link in links {
        let Some(desired) = desired(shape, link) else {
            let several = several(&own(shape, link));
            match several.filter(|_| link.is_card && is_known) {
                Some(several) => return not_yet(format!("{} {several}", link.name)),
                None => continue,
            }
        };
        let name = &link.name;
        if let Some(ip) = desired.fixed.iter().find(|ip| !has(link, **ip)) {
            let beside = match own(shape, link).as_slice() {
                [] => String::new(),
                own => format!(", and has {}", list(own)),
            };
            return not_yet(format!("{name} does not have the address {ip}{beside}"));
        }
        let own = own(shape, link);
        let foreign: Vec<IpAddr> =
            own.iter().filter(|ip| !desired.fixed.contains(ip)).copied().collect();
        match foreign.as_slice() {
            [ip, ..] if !desired.is_dhcp => {
                return NodeNetwork::NotYet(not_given(&format!("{name} has the address {ip}")));
            }
            [_, _, ..] => {
                return not_yet(format!("{name} has several addresses: {}", list(&own)));
            }
            [] if desired.is_dhcp && desired.fixed.is_empty() => {
                lacking.get_or_insert_with(|| {
                    format!("{name} has no address: no DHCP server gave it one")
                });
            }
            _ => {}
        }
    }
    match lacking {
        Some(lacking) if has_any(shape, links) => NodeNetwork::CardWithoutAddress(lacking),
        Some(lacking) => not_yet(lacking),
        None => NodeNetwork::Configured,
    }
}

/// Problem of the addresses that the kubelet uses. None if there is no problem.
pub(super) fn compare_node_ips(
    shape: &ExpectedNetwork,
    links: &[NodeLink],
    used: &[IpAddr],
) -> Option<WaitReason> {
    let mut allowed = shape.further.clone();
    for link in links {
        let Some(desired) = desired(shape, link) else { continue };
        if desired.is_dhcp {
            allowed.extend(own(shape, link));
        }
        allowed.extend(desired.fixed);
    }
    for card in shape.cards.iter().filter(|card| card.name == CardName::Somehow) {
        allowed.extend(&card.addressing.fixed);
        if card.addressing.is_dhcp {
            allowed.extend(links.iter().flat_map(|link| own(shape, link)));
        }
    }
    if allowed.is_empty() {
        return None;
    }
    let foreign = used.iter().find(|ip| ip.is_ipv4() && !allowed.contains(ip));
    match (used.first(), foreign) {
        (None, _) => Some("its kubelet has no address yet".into()),
        (_, Some(ip)) => Some(not_given(&format!("its kubelet uses the address {ip}"))),
        _ => None,
    }
}

/// The reason for an address that is not in the config.
fn not_given(what: &str) -> WaitReason {
    let text = format!("{what}, which its config does not give it");
    WaitReason { text, advice: Some(TWO_ADDRESSES) }
}

fn missing(card: &Card, links: &[NodeLink]) -> Option<String> {
    let is_there = links.iter().any(|link| is_called(link, &card.name));
    match &card.name {
        CardName::Mac(mac) if !is_there => Some(format!("it has no network card {mac}")),
        CardName::Link(name) if !is_there => Some(format!("it has no link {name}")),
        CardName::Mac(_) | CardName::Link(_) => None,
        CardName::Somehow => {
            let is_missing = |ip: &&IpAddr| !links.iter().any(|link| has(link, **ip));
            let missing = card.addressing.fixed.iter().find(is_missing);
            missing.map(|ip| format!("it does not have the address {ip}"))
        }
    }
}

fn is_called(link: &NodeLink, name: &CardName) -> bool {
    match name {
        // Bridges and VLANs have the hardware address of the card below them.
        CardName::Mac(mac) => link.is_card && link.mac.as_ref() == Some(mac),
        CardName::Link(name) => link.name == *name || link.alias.as_ref() == Some(name),
        CardName::Somehow => false,
    }
}

/// The addressing of a link in the config. None if the config does not mention the link.
fn desired(shape: &ExpectedNetwork, link: &NodeLink) -> Option<Addressing> {
    let cards = shape.cards.iter().filter(|card| is_called(link, &card.name));
    cards.map(|card| card.addressing.clone()).reduce(|mut all, more| {
        all.is_dhcp |= more.is_dhcp;
        all.fixed.extend(more.fixed);
        all
    })
}

fn has(link: &NodeLink, ip: IpAddr) -> bool {
    link.addresses.iter().any(|one| one.ip == ip)
}

fn has_any(shape: &ExpectedNetwork, links: &[NodeLink]) -> bool {
    links.iter().any(|link| link.is_card && !own(shape, link).is_empty())
        || shape.cards.iter().any(|card| !card.addressing.fixed.is_empty())
}

/// The IPv4 addresses of a link that are not shared.
fn own(shape: &ExpectedNetwork, link: &NodeLink) -> Vec<IpAddr> {
    let is_own = |ip: &IpAddr| ip.is_ipv4() && !shape.shared.contains(ip);
    let fixed = link.addresses.iter().filter(|one| !one.is_shared).map(|one| one.ip);
    fixed.filter(is_own).collect()
}

fn several(own: &[IpAddr]) -> Option<String> {
    (own.len() > 1).then(|| format!("has several addresses: {}", list(own)))
}

fn list(addresses: &[IpAddr]) -> String {
    addresses.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::super::link::Global;
    use super::*;

    const MAC: &str = "02:00:00:00:00:11";

    fn ip(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    /// A card, with addresses such as `10.0.0.11/24`.
    fn link(name: &str, mac: &str, addresses: &[&str]) -> NodeLink {
        let global = |text: &&str| {
            let (ip, length) = text.split_once('/').unwrap();
            Global { ip: ip.parse().unwrap(), is_shared: matches!(length, "32" | "128") }
        };
        NodeLink {
            name: name.to_owned(),
            alias: None,
            mac: Some(mac.to_owned()),
            is_card: true,
            addresses: addresses.iter().map(global).collect(),
        }
    }

    fn card(name: CardName, fixed: &[&str]) -> Card {
        let fixed: Vec<IpAddr> = fixed.iter().map(|text| ip(text)).collect();
        Card { name, addressing: Addressing { is_dhcp: fixed.is_empty(), fixed } }
    }

    fn shape(cards: Vec<Card>) -> ExpectedNetwork {
        ExpectedNetwork { hostname: None, cards, shared: vec![ip("10.0.0.20")], further: vec![] }
    }

    fn mac() -> CardName {
        CardName::Mac(MAC.to_owned())
    }

    fn eth1() -> CardName {
        CardName::Link("eth1".to_owned())
    }

    fn reason(settled: NodeNetwork) -> WaitReason {
        let NodeNetwork::NotYet(reason) = settled else { panic!("{settled:?}") };
        reason
    }

    fn not_yet(settled: NodeNetwork) -> String {
        reason(settled).text
    }

    #[test]
    fn each_card_has_exactly_its_addresses() {
        let shape = shape(vec![card(mac(), &["10.0.0.11"]), card(eth1(), &["10.1.0.11"])]);
        let compare = |first: &[&str], second: &[&str]| {
            compare(&shape, &[link("eth0", MAC, first), link("eth1", "02::12", second)])
        };
        let (first, second): (&[&str], &[&str]) = (&["10.0.0.11/24"], &["10.1.0.11/24"]);
        assert_eq!(compare(first, second), NodeNetwork::Configured);
        // IPv6 addresses from a router and shared addresses are ignored.
        let more = ["10.0.0.11/24", "fd00::5054/64", "10.0.0.20/24", "10.0.0.99/32"];
        assert_eq!(compare(&more, second), NodeNetwork::Configured);
        assert_eq!(compare(first, &["10.1.0.11/32"]), NodeNetwork::Configured);
        let both = reason(compare(&["10.0.0.11/24", "10.0.0.77/24"], second));
        assert_eq!(both.text, "eth0 has the address 10.0.0.77, which its config does not give it");
        assert_eq!(both.advice, Some(TWO_ADDRESSES));
        assert_eq!(reason(compare(&["10.0.0.77/24"], second)).advice, None, "it may still come");
        assert_eq!(
            not_yet(compare(&["10.0.0.77/24"], second)),
            "eth0 does not have the address 10.0.0.11, and has 10.0.0.77"
        );
        assert_eq!(not_yet(compare(first, &[])), "eth1 does not have the address 10.1.0.11");
        // The address of one card does not count on another card.
        assert_eq!(
            not_yet(compare(second, first)),
            "eth0 does not have the address 10.0.0.11, and has 10.1.0.11"
        );
    }

    #[test]
    fn cards_are_found_by_what_the_config_calls_them() {
        let compare = |name| {
            let shape = shape(vec![card(name, &["10.0.0.11"])]);
            let mut bridge = link("br0", MAC, &[]);
            bridge.is_card = false;
            compare(&shape, &[bridge, link("eth0", MAC, &["10.0.0.11/24"])])
        };
        assert_eq!(compare(mac()), NodeNetwork::Configured);
        assert_eq!(compare(CardName::Somehow), NodeNetwork::Configured);
        assert_eq!(not_yet(compare(eth1())), "it has no link eth1");
        let other = CardName::Mac("02::99".to_owned());
        assert_eq!(not_yet(compare(other)), "it has no network card 02::99");
    }

    #[test]
    fn by_dhcp_any_one_address_will_do() {
        let shape = shape(vec![card(mac(), &[])]);
        let compare = |addresses: &[&str]| compare(&shape, &[link("eth0", MAC, addresses)]);
        assert_eq!(compare(&["10.0.0.99/24", "10.0.0.20/32"]), NodeNetwork::Configured);
        assert_eq!(not_yet(compare(&[])), "eth0 has no address: no DHCP server gave it one");
        assert_eq!(
            not_yet(compare(&["10.0.0.98/24", "10.0.0.99/24"])),
            "eth0 has several addresses: 10.0.0.98, 10.0.0.99"
        );
    }

    #[test]
    fn a_further_card_without_an_address_is_reported_and_not_waited_for() {
        let shape = shape(vec![card(mac(), &["10.0.0.11"]), card(eth1(), &[])]);
        let links = [link("eth0", MAC, &["10.0.0.11/24"]), link("eth1", "02::12", &[])];
        let reason = "eth1 has no address: no DHCP server gave it one".to_owned();
        assert_eq!(compare(&shape, &links), NodeNetwork::CardWithoutAddress(reason));
    }

    #[test]
    fn the_kubelet_uses_an_address_of_the_config() {
        let shape = shape(vec![card(mac(), &["10.0.0.11"]), card(eth1(), &[])]);
        let links = [
            link("eth0", MAC, &["10.0.0.11/24", "10.0.0.77/24"]),
            link("eth1", "02::12", &["10.1.0.5/24"]),
        ];
        let compare = |used: &[IpAddr]| compare_node_ips(&shape, &links, used);
        for fine in ["10.0.0.11", "10.1.0.5"] {
            assert_eq!(compare(&[ip(fine)]), None);
        }
        assert_eq!(compare(&[]).unwrap().text, "its kubelet has no address yet");
        let wrong = "its kubelet uses the address 10.0.0.77, which its config does not give it";
        assert_eq!(compare(&[ip("10.0.0.77")]).unwrap().text, wrong);
    }
}
