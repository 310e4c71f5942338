//! Platform metal: network settings from META.

use super::super::config::prefix;
use super::{PlatformData, PlatformLink, address, first, items, text};

/// Reads the network settings in META key 0xa.
pub(super) fn read(value: &str) -> PlatformData {
    let mut data = PlatformData { name: "metal".to_owned(), ..PlatformData::default() };
    let Some(node) = first(value) else { return data };
    let of_link = |links: &mut Vec<PlatformLink>, name: String| -> usize {
        let known = links.iter().position(|link| link.name.as_ref() == Some(&name));
        known.unwrap_or_else(|| {
            links.push(PlatformLink { name: Some(name), ..PlatformLink::default() });
            links.len() - 1
        })
    };
    for entry in items(&node, "addresses") {
        let Some(name) = text(entry, "linkName") else { continue };
        let index = of_link(&mut data.links, name);
        data.links[index].addresses.extend(text(entry, "address").and_then(|text| prefix(&text)));
    }
    for entry in items(&node, "links") {
        let Some(name) = text(entry, "name") else { continue };
        let index = of_link(&mut data.links, name);
        data.links[index].mtu = text(entry, "mtu").and_then(|mtu| mtu.parse().ok());
    }
    for entry in items(&node, "routes") {
        let to = text(entry, "dst").unwrap_or_default();
        let Some(name) = text(entry, "outLinkName") else { continue };
        if to.is_empty() {
            let index = of_link(&mut data.links, name);
            data.links[index]
                .gateways
                .extend(text(entry, "gateway").and_then(|text| address(&text)));
        }
    }
    for entry in items(&node, "operators") {
        let Some(name) = text(entry, "linkName") else { continue };
        let index = of_link(&mut data.links, name);
        data.links[index].is_dhcp = true;
    }
    for entry in items(&node, "hostnames") {
        let (name, domain) = (text(entry, "hostname"), text(entry, "domainname"));
        data.hostname = match (name, domain) {
            (Some(name), Some(domain)) => Some(format!("{name}.{domain}")),
            (name, _) => name,
        };
    }
    for entry in items(&node, "resolvers") {
        let servers = items(entry, "dnsServers").filter_map(|item| address(item.as_str()?));
        data.nameservers.extend(servers);
    }
    data
}
