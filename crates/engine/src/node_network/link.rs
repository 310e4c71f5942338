//! Links and addresses that a node reports.

use std::net::IpAddr;

use talmox_talos_api::client::Resource;
use talmox_yaml::Node;

/// A link of a node, with its global addresses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct NodeLink {
    /// Name of the link, such as `eth0`.
    pub(super) name: String,
    pub(super) alias: Option<String>,
    /// MAC address, in lower case.
    pub(super) mac: Option<String>,
    /// Whether the link is a network card, not a bridge, tunnel or VLAN.
    pub(super) is_card: bool,
    pub(super) addresses: Vec<Global>,
}

/// A global address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Global {
    pub(super) ip: IpAddr,
    /// Whether the address has a full-length prefix. Shared addresses, which move between nodes, have such a prefix.
    pub(super) is_shared: bool,
}

/// All links, from the resources of a node.
pub(super) fn links(links: &[Resource], addresses: &[Resource]) -> Vec<NodeLink> {
    let link = |link: &Resource| {
        let text = |path: &str| link.text(path).filter(|text| !text.is_empty());
        NodeLink {
            name: link.id.clone(),
            alias: text("alias"),
            mac: text("hardwareAddr").map(|mac| mac.to_lowercase()),
            is_card: text("type").as_deref() == Some("ether") && text("kind").is_none(),
            addresses: vec![],
        }
    };
    let mut links: Vec<NodeLink> = links.iter().map(link).collect();
    for address in addresses {
        let text = |path: &str| address.text(path).unwrap_or_default();
        let (written, name) = (text("address"), text("linkName"));
        let Some(global) = global(&written).filter(|_| text("scope") == "global") else { continue };
        if let Some(link) = links.iter_mut().find(|link| link.name == name) {
            link.addresses.push(global);
        }
    }
    links
}

fn global(text: &str) -> Option<Global> {
    let (ip, length) = text.split_once('/')?;
    let ip: IpAddr = ip.parse().ok()?;
    let is_shared = length == if ip.is_ipv4() { "32" } else { "128" };
    Some(Global { ip, is_shared })
}

/// The addresses that the kubelet uses.
pub(super) fn node_ips(found: Option<&Resource>) -> Vec<IpAddr> {
    let Some(tree) = found.and_then(Resource::tree) else { return vec![] };
    let list = tree.as_map().and_then(|map| map.get("addresses")).and_then(Node::as_seq);
    let items = list.map(|list| list.items.as_slice()).unwrap_or_default();
    items.iter().filter_map(|item| item.as_str()?.parse().ok()).collect()
}
