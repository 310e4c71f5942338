//! Whether a node has become what its config says: its name, and exactly one address per card.
//!
//! While a node boots, what its first-boot drive says is up first. Addresses of drive and config
//! that differ add up, and the node then keeps using the wrong one.

use std::collections::BTreeMap;
use std::net::IpAddr;

use talmox_talos_api::client::{Resource, ResourceKind};
use talmox_talos_api::{Client, Code, Look, TalosError};
use talmox_yaml::Node;

use crate::plan::ApplyConfig;

/// The version of Talos, once all is as it should be.
pub(super) async fn look(step: &ApplyConfig, client: &Client) -> Result<Look<String>, TalosError> {
    let version = client.version().await?;
    let hostname = client.hostname().await?;
    let short = hostname.split('.').next().unwrap_or_default();
    if hostname != step.hostname && short != step.hostname {
        return Ok(Look::NotYet(format!("it calls itself {hostname}, not {}", step.hostname)));
    }
    let links = client.list(ResourceKind::LINK_STATUS).await?;
    let addresses = client.list(ResourceKind::ADDRESS_STATUS).await?;
    if let Some(problem) = misplaced(&by_card(&links, &addresses, &step.leased), &step.addresses) {
        return Ok(Look::NotYet(problem));
    }
    if let Some(problem) = node_ip(step, client).await? {
        return Ok(Look::NotYet(problem));
    }
    Ok(Look::Done(version.tag))
}

/// The global addresses of each network card but those that DHCP is asked for. A shared address has no network around it,
/// and does not count: it comes and goes.
fn by_card(
    links: &[Resource],
    addresses: &[Resource],
    leased: &[String],
) -> BTreeMap<String, Vec<IpAddr>> {
    let is_leased = |link: &Resource| {
        let mac = link.text("hardwareAddr").unwrap_or_default().to_lowercase();
        leased.contains(&mac)
    };
    let is_card = |link: &&Resource| {
        link.text("type").as_deref() == Some("ether")
            && link.text("kind").unwrap_or_default().is_empty()
            && !is_leased(link)
    };
    let mut cards: BTreeMap<String, Vec<IpAddr>> =
        links.iter().filter(is_card).map(|link| (link.id.clone(), vec![])).collect();
    for address in addresses {
        let text = |field: &str| address.text(field).unwrap_or_default();
        let (ip, prefix) = (text("address"), text("scope"));
        let Some((ip, length)) = ip.split_once('/') else { continue };
        let Ok(ip) = ip.parse::<IpAddr>() else { continue };
        let is_shared = length == if ip.is_ipv4() { "32" } else { "128" };
        if let Some(card) = cards.get_mut(&text("linkName"))
            && prefix == "global"
            && !is_shared
        {
            card.push(ip);
        }
    }
    cards
}

/// What is wrong with the addresses. Routers give IPv6 addresses unasked, so of those only the
/// wanted ones are looked for.
fn misplaced(cards: &BTreeMap<String, Vec<IpAddr>>, wanted: &[IpAddr]) -> Option<String> {
    let all: Vec<IpAddr> = cards.values().flatten().copied().collect();
    for (card, addresses) in cards {
        let four: Vec<String> =
            addresses.iter().filter(|ip| ip.is_ipv4()).map(ToString::to_string).collect();
        if four.len() > 1 {
            return Some(format!("{card} has several addresses: {}", four.join(", ")));
        }
    }
    if let Some(missing) = wanted.iter().find(|ip| !all.contains(ip)) {
        return Some(format!("it does not have the address {missing}"));
    }
    if all.is_empty() {
        return Some("it has no address".to_owned());
    }
    let has_four = wanted.iter().any(IpAddr::is_ipv4);
    let strange = all.iter().find(|ip| has_four && ip.is_ipv4() && !wanted.contains(ip));
    strange.map(|ip| format!("it has the address {ip}, which its config does not give it"))
}

/// What is wrong with the address that Kubernetes will know the node by.
async fn node_ip(step: &ApplyConfig, client: &Client) -> Result<Option<String>, TalosError> {
    if step.addresses.is_empty() {
        return Ok(None);
    }
    let found = match client.get(ResourceKind::NODE_IP, "kubelet").await {
        Ok(found) => found,
        Err(TalosError::No { code: Code::PermissionDenied, .. }) => return Ok(None),
        Err(error) => return Err(error),
    };
    let Some(tree) = found.and_then(|found| found.tree()) else {
        return Ok(Some("its kubelet has no address yet".to_owned()));
    };
    let list = tree.as_map().and_then(|map| map.get("addresses")).and_then(Node::as_seq);
    let items = list.map(|list| list.items.as_slice()).unwrap_or_default();
    let known: Vec<IpAddr> = items.iter().filter_map(|item| item.as_str()?.parse().ok()).collect();
    let strange = known.iter().find(|ip| !step.addresses.contains(ip));
    Ok(match (known.first(), strange) {
        (None, _) => Some("its kubelet has no address yet".to_owned()),
        (_, Some(ip)) => Some(format!("its kubelet uses the address {ip}")),
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cards(cards: &[(&str, &[&str])]) -> BTreeMap<String, Vec<IpAddr>> {
        let addresses = |list: &&[&str]| list.iter().map(|ip| ip.parse().unwrap()).collect();
        cards.iter().map(|(name, list)| ((*name).to_owned(), addresses(list))).collect()
    }

    #[test]
    fn each_card_has_exactly_its_address() {
        let wanted = ["10.0.0.11".parse().unwrap()];
        let judge = |found: &[(&str, &[&str])]| misplaced(&cards(found), &wanted);
        assert_eq!(judge(&[("eth0", &["10.0.0.11", "fd00::5054"])]), None);
        assert_eq!(judge(&[("eth0", &["10.0.0.11"]), ("eth1", &[])]), None);
        let text = |found: &[(&str, &[&str])]| judge(found).unwrap();
        assert_eq!(
            text(&[("eth0", &["10.0.0.11", "10.0.0.77"])]),
            "eth0 has several addresses: 10.0.0.11, 10.0.0.77"
        );
        assert_eq!(text(&[("eth0", &["10.0.0.77"])]), "it does not have the address 10.0.0.11");
        assert_eq!(
            text(&[("eth0", &["10.0.0.11"]), ("eth1", &["10.1.0.5"])]),
            "it has the address 10.1.0.5, which its config does not give it"
        );
    }

    #[test]
    fn by_dhcp_any_one_address_will_do() {
        assert_eq!(misplaced(&cards(&[("eth0", &["10.0.0.99"])]), &[]), None);
        assert_eq!(misplaced(&cards(&[("eth0", &[])]), &[]).unwrap(), "it has no address");
    }
}
