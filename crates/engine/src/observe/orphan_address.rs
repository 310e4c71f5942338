//! Addresses of orphans, as the other nodes discovered them. They are requested only if there is an orphan. Discovery may be
//! turned off, so a missing answer is no error.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::time::Duration;

use talmox_plan::desired::Desired;
use talmox_plan::observed::{Pve, TalosSeen};
use talmox_plan::planning::places;
use talmox_talos_api::client::{Resource, ResourceKind};
use talmox_talos_api::{Client, node_address};
use talmox_yaml::Node;

use super::sources::TalosAccess;

/// Timeout of the answer of one node.
const ANSWER: Duration = Duration::from_secs(5);

/// The addresses of the orphans, by the name of the node.
pub(super) async fn observe(
    desired: &Desired,
    pve: &Pve,
    nodes: &BTreeMap<String, TalosSeen>,
    access: &TalosAccess,
) -> BTreeMap<String, Vec<IpAddr>> {
    let removed = places(desired, pve).removed.into_iter();
    let orphans: BTreeSet<String> = removed.map(|(own, _)| own.identity.node).collect();
    if orphans.is_empty() {
        return BTreeMap::new();
    }
    // Every node knows all members, so one answer is enough.
    for seen in nodes.values() {
        let TalosSeen::OwnNode(found) = seen else { continue };
        let Some(at) = found.address else { continue };
        let address = node_address(at.to_string());
        let client = Client::new(address, &access.credentials, &access.settings);
        let Ok(client) = client.map(|client| client.within(ANSWER)) else { continue };
        let Ok(members) = client.list(ResourceKind::MEMBER).await else { continue };
        let known = members.iter().filter(|member| orphans.contains(&member.id));
        return known.map(|member| (member.id.clone(), addresses(member))).collect();
    }
    BTreeMap::new()
}

fn addresses(member: &Resource) -> Vec<IpAddr> {
    let Some(tree) = member.tree() else { return vec![] };
    let list = tree.as_map().and_then(|map| map.get("addresses")).and_then(Node::as_seq);
    let items = list.into_iter().flat_map(|list| &list.items);
    items.filter_map(|item| item.as_str()?.parse().ok()).collect()
}
