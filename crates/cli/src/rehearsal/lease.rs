//! What DHCP gives to the network cards of a rehearsal.

use std::collections::{BTreeMap, BTreeSet};

use talmox_engine::desired::NodeIdentity;
use talmox_model::inventory::Nic;
use talmox_model::value::Boot;
use talmox_model::{Cluster, Node};

/// Whether nodes are found by nothing but DHCP.
pub(crate) fn leads_to_nodes(cluster: &Cluster) -> bool {
    cluster.nodes.iter().any(is_led)
}

/// Whether further cards ask for addresses.
pub(crate) fn has_further(cluster: &Cluster) -> bool {
    cluster.nodes.iter().any(|node| node.settings().hardware.nics.values().any(asks))
}

/// Where DHCP puts cards that ask for it: by MAC, with prefix length.
pub(super) fn leases(cluster: &Cluster, cluster_id: Option<&str>) -> BTreeMap<String, String> {
    let bridges: BTreeSet<String> = cluster
        .nodes
        .iter()
        .flat_map(|node| node.settings().hardware.nics.values())
        .map(network)
        .collect();
    let mut leases = BTreeMap::new();
    for (node, number) in cluster.nodes.iter().zip(1_u8..=254) {
        // MACs that nobody wrote down hang on the cluster's id.
        let derived = cluster_id.map(|id| NodeIdentity::of(node, id).macs).unwrap_or_default();
        let mut give = |mac: Option<String>, lease: Option<String>| {
            leases.extend(mac.map(|mac| mac.to_lowercase()).zip(lease));
        };
        if is_led(node) {
            let mac = node.entry.mac.get().or(derived.first()).map(ToString::to_string);
            let length = node.prefix_len(cluster).unwrap_or(24);
            give(mac, node.contact().map(|address| format!("{address}/{length}")));
        }
        for (index, nic) in node.settings().hardware.nics.values().enumerate() {
            if asks(nic) {
                let mac = nic.mac.get().or(derived.get(index + 1)).map(ToString::to_string);
                let place = bridges.iter().position(|bridge| *bridge == network(nic));
                let place = place.and_then(|place| u8::try_from(place).ok());
                // Networks that are for trials, and so in nobody's inventory.
                give(mac, place.map(|place| format!("198.18.{place}.{number}/24")));
            }
        }
    }
    leases
}

/// Whether DHCP leads to the node's first card.
fn is_led(node: &Node) -> bool {
    *node.settings().system.boot.required() == Boot::Dhcp
}

/// A card without an address of its own asks, unless it is told not to.
fn asks(nic: &Nic) -> bool {
    nic.dhcp.get().copied().unwrap_or(nic.ip.get().is_none())
}

/// What cards that hear each other have in common.
fn network(nic: &Nic) -> String {
    let bridge = nic.bridge.get().map(ToString::to_string).unwrap_or_default();
    let vlan = nic.vlan.get().map(ToString::to_string).unwrap_or_default();
    format!("{bridge}/{vlan}")
}
