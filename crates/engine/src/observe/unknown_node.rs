//! Nodes that Kubernetes lists as not ready, and that the inventory does not contain. Their addresses are probed, because their machines
//! may still exist.

use std::collections::BTreeMap;
use std::net::IpAddr;

use talmox_plan::desired::Desired;
use talmox_plan::observed::UnknownNode;
use talmox_talos_api::{Address, Reach, node_address};
use tokio::task::JoinSet;

use super::listener::{connect, connect_common};
use crate::kube::NodeFacts;

/// Port of the kubelet.
const KUBELET: u16 = 10250;

pub(super) async fn observe(
    desired: &Desired,
    known: &[NodeFacts],
    reach: &Reach,
) -> BTreeMap<String, UnknownNode> {
    let mut looks = JoinSet::new();
    for node in known.iter().filter(|node| !node.is_ready && desired.node(&node.name).is_none()) {
        let (node, reach) = (node.clone(), reach.clone());
        looks.spawn(async move {
            let answer = answer(&node.internal_addresses, &reach).await;
            let seen = UnknownNode {
                system_uuid: node.system_uuid,
                provider_id: node.provider_id,
                addresses: node.internal_addresses,
                answer,
            };
            (node.name, seen)
        });
    }
    looks.join_all().await.into_iter().collect()
}

/// A port of these addresses that accepts a connection. None if no port does.
async fn answer(addresses: &[IpAddr], reach: &Reach) -> Option<String> {
    for address in addresses {
        let host = address.to_string();
        let (talos, kubelet) = (node_address(host.clone()), Address::new(host.clone(), KUBELET));
        let (of_talos, of_kubelet, common) = tokio::join!(
            connect(&talos, reach),
            connect(&kubelet, reach),
            connect_common(&host, reach)
        );
        let port = of_talos
            .map(|_| talos.port)
            .or(of_kubelet.map(|_| kubelet.port))
            .or(common.map(|(common, _)| common.port));
        if let Some(port) = port {
            return Some(format!("{host}, port {port}"));
        }
    }
    None
}
