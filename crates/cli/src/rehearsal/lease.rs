//! DHCP leases of the network cards in a lab.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr};

use talmox_model::inventory::Nic;
use talmox_model::value::Boot;
use talmox_model::{Cluster, Node};
use talmox_plan::desired::NodeIdentity;

/// Benchmark network of RFC 2544. Inventories do not use this network.
const BENCHMARK_NETWORK: Ipv4Addr = Ipv4Addr::new(198, 19, 0, 0);

/// Whether the cluster has nodes with `boot: dhcp`.
pub(crate) fn has_dhcp_nodes(cluster: &Cluster) -> bool {
    cluster.nodes.iter().any(boots_with_dhcp)
}

/// Whether additional network cards use DHCP.
pub(crate) fn has_additional_dhcp_cards(cluster: &Cluster) -> bool {
    cluster.nodes.iter().any(|node| node.settings().hardware.nics.values().any(uses_dhcp))
}

/// Addresses of the nodes. A node with `boot: dhcp` that has no address in the inventory gets the first free address of
/// the pool.
pub(super) fn contacts(cluster: &Cluster) -> Vec<(&Node, IpAddr)> {
    let network = &cluster.file.network;
    let known = cluster.nodes.iter().flat_map(|node| {
        let gateway = node.settings().placement.gateway.get().copied();
        [node.address(), node.contact(), gateway]
    });
    let shared = [network.vip.get(), network.gateway.get()].map(Option::<&IpAddr>::copied);
    let taken: BTreeSet<IpAddr> = known.chain(shared).flatten().collect();
    let mut free = pool(cluster).filter(|address| !taken.contains(address));
    let nodes = cluster.nodes.iter();
    nodes
        .filter_map(|node| {
            let lease = || if boots_with_dhcp(node) { free.next() } else { None };
            Some((node, node.contact().or_else(lease)?))
        })
        .collect()
}

/// Address pool of the DHCP server in the network of the cluster. It starts at the 100th address; the lower addresses
/// follow at the end.
fn pool(cluster: &Cluster) -> impl Iterator<Item = IpAddr> {
    let network = &cluster.file.network;
    let subnet = network.subnet.get().copied().and_then(|subnet| match subnet.network() {
        IpAddr::V4(first) => Some((first, subnet.prefix_len())),
        IpAddr::V6(_) => None,
    });
    let mut near = [network.vip.get(), network.gateway.get()].into_iter().flatten().copied();
    let near = near.find_map(network_of);
    let (first, length) = subnet.or(near.map(|near| (near, 24))).unwrap_or((BENCHMARK_NETWORK, 24));
    let size = 1_u32.checked_shl(u32::from(32 - length)).unwrap_or(u32::MAX);
    let numbers = (100..size.saturating_sub(1)).chain(1..size.saturating_sub(1).min(100));
    numbers.map(move |number| IpAddr::V4(Ipv4Addr::from(u32::from(first) + number)))
}

/// Network of an IPv4 address with the prefix length 24.
pub(super) fn network_of(address: IpAddr) -> Option<Ipv4Addr> {
    let IpAddr::V4(address) = address else { return None };
    let [a, b, c, _] = address.octets();
    Some(Ipv4Addr::new(a, b, c, 0))
}

/// DHCP leases by MAC. A lease is an address with a prefix length.
pub(super) fn leases(cluster: &Cluster, cluster_id: Option<&str>) -> BTreeMap<String, String> {
    let bridges: BTreeSet<String> = cluster
        .nodes
        .iter()
        .flat_map(|node| node.settings().hardware.nics.values())
        .map(network)
        .collect();
    let contacts: BTreeMap<&str, IpAddr> = contacts(cluster)
        .into_iter()
        .map(|(node, address)| (node.name.value.as_str(), address))
        .collect();
    let mut leases = BTreeMap::new();
    for (node, number) in cluster.nodes.iter().zip(1_u8..=254) {
        // MACs that the inventory does not set are derived from the cluster ID.
        let derived = cluster_id.map(|id| NodeIdentity::of(node, id).macs).unwrap_or_default();
        let mut give = |mac: Option<String>, lease: Option<String>| {
            leases.extend(mac.map(|mac| mac.to_lowercase()).zip(lease));
        };
        if boots_with_dhcp(node) {
            let mac = node.entry.mac.get().or(derived.first()).map(ToString::to_string);
            let length = node.prefix_len(cluster).unwrap_or(24);
            let contact = contacts.get(node.name.value.as_str());
            give(mac, contact.map(|address| format!("{address}/{length}")));
        }
        for (index, nic) in node.settings().hardware.nics.values().enumerate() {
            if uses_dhcp(nic) {
                let mac = nic.mac.get().or(derived.get(index + 1)).map(ToString::to_string);
                let place = bridges.iter().position(|bridge| *bridge == network(nic));
                let place = place.and_then(|place| u8::try_from(place).ok());
                // Benchmark network of RFC 2544. Inventories do not use this network.
                give(mac, place.map(|place| format!("198.18.{place}.{number}/24")));
            }
        }
    }
    leases
}

/// Whether the first network card of the node gets its address by DHCP.
fn boots_with_dhcp(node: &Node) -> bool {
    *node.settings().system.boot.required() == Boot::Dhcp
}

/// Whether a network card uses DHCP: it has `dhcp: true`, or neither `dhcp:` nor a static address.
fn uses_dhcp(nic: &Nic) -> bool {
    nic.dhcp.get().copied().unwrap_or(nic.ip.get().is_none())
}

/// Name of the network that a card is connected to: bridge and VLAN.
fn network(nic: &Nic) -> String {
    let bridge = nic.bridge.get().map(ToString::to_string).unwrap_or_default();
    let vlan = nic.vlan.get().map(ToString::to_string).unwrap_or_default();
    format!("{bridge}/{vlan}")
}
