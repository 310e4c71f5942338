//! Files on the image storage of hosts that already run VMs of the cluster.

use std::collections::BTreeSet;

use talmox_plan::desired::Desired;
use talmox_plan::observed::Pve;
use talmox_plan::planning::places;
use talmox_pve::Client;
use talmox_pve::api::storage::{self, Content};
use talmox_pve::id::NodeName;
use tokio::task::JoinSet;

use super::answer::answer;

/// Lists the image storage of every host with a node, unless it is listed already. `up` lists only the hosts that get new
/// VMs, so the plan of a replacement would show images that exist as new.
pub(super) async fn list(desired: &Desired, client: &Client, pve: &mut Pve) {
    let storage = &desired.image_storage;
    let hosts: BTreeSet<NodeName> = {
        let nodes = places(desired, pve).nodes;
        let placed = nodes.iter().flat_map(|placed| {
            [Some(&placed.own.vm.node), placed.node.host.as_ref()].into_iter().flatten()
        });
        let is_open = |host: &&NodeName| {
            pve.is_online(host) && !pve.contents.contains_key(&((*host).clone(), storage.clone()))
        };
        placed.filter(is_open).cloned().collect()
    };
    let mut contents = JoinSet::new();
    for host in hosts {
        let request = storage::content(&host, storage, Some(Content::Import), None);
        let (client, storage) = (client.clone(), storage.clone());
        contents.spawn(async move { ((host, storage), answer(client.send(&request).await)) });
    }
    pve.contents.extend(contents.join_all().await);
}
