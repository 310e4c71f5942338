//! Former addresses of nodes that do not answer at the address in the inventory, as the rest of the cluster reports them.
//!
//! With `boot: cidata` and without a guest agent, Proxmox does not know the address of a node. The Node object in Kubernetes and
//! the discovered members on the other nodes contain it.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::time::Duration;

use talmox_plan::desired::DesiredNode;
use talmox_plan::observed::TalosSeen;
use talmox_talos_api::client::{Resource, ResourceKind};
use talmox_talos_api::{Client, Expected, Machine, node_address};
use talmox_yaml::Node;
use tokio::time::timeout;

use super::sources::TalosAccess;
use crate::kube::KubeClient;
use crate::locate::missing_identity;

/// Timeout of one answer. It is in real time, because it limits a network connection.
const ANSWER: Duration = Duration::from_secs(5);

/// The addresses of all nodes that Kubernetes and the nodes of the cluster report, by the names of the nodes.
pub(super) async fn reported(
    nodes: &BTreeMap<String, TalosSeen>,
    access: &TalosAccess,
    kube: &KubeClient,
) -> BTreeMap<String, BTreeSet<IpAddr>> {
    let mut found: BTreeMap<String, BTreeSet<IpAddr>> = BTreeMap::new();
    if let Ok(Ok(known)) = timeout(ANSWER, Box::pin(kube.nodes())).await {
        for node in known {
            found.entry(node.name).or_default().extend(node.internal_addresses);
        }
    }
    // All nodes of a cluster discover the same members, so one answer is enough.
    for seen in nodes.values() {
        let TalosSeen::OwnNode(own) = seen else { continue };
        let Some(client) = own.address.and_then(|address| client(address, access)) else {
            continue;
        };
        let list = client.list(ResourceKind::MEMBER);
        let Ok(Ok(members)) = timeout(ANSWER, Box::pin(list)).await else { continue };
        for member in members.iter().filter(|member| !member.id.is_empty()) {
            found.entry(member.id.clone()).or_default().extend(addresses(member));
        }
        if !members.is_empty() {
            break;
        }
    }
    found
}

/// Whether the machine at this address is the machine of the node. Another machine may have the former address by now.
pub(super) async fn is_machine_of(
    node: &DesiredNode,
    address: IpAddr,
    access: &TalosAccess,
) -> bool {
    let Some(client) = client(address, access) else { return false };
    let expected = Expected { instance_id: None, ..node.machine() };
    match timeout(ANSWER, Box::pin(Machine::read(&client))).await {
        Ok(Ok(machine)) => {
            missing_identity(&machine, &expected).is_none() && machine.mismatch(&expected).is_none()
        }
        Ok(Err(_)) | Err(_) => false,
    }
}

fn client(address: IpAddr, access: &TalosAccess) -> Option<Client> {
    let address = node_address(address.to_string());
    Client::new(address, &access.credentials, &access.settings).ok()
}

/// The addresses of a discovered member.
fn addresses(member: &Resource) -> Vec<IpAddr> {
    let Some(tree) = member.tree() else { return vec![] };
    let list = tree.as_map().and_then(|map| map.get("addresses")).and_then(Node::as_seq);
    let items = list.into_iter().flat_map(|list| &list.items);
    items.filter_map(|item| item.as_str()?.parse().ok()).collect()
}
