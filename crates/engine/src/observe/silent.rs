//! VMs from which nothing is heard. The list of all VMs is some seconds old: one that was just stopped
//! still runs by it, so these are asked about one by one.

use std::collections::BTreeMap;

use talmox_plan::desired::Desired;
use talmox_plan::observed::{Pve, TalosSeen};
use talmox_plan::ownership::Stage;
use talmox_plan::planning::{VmPresence, places};
use talmox_pve::Client;
use talmox_pve::api::qemu;
use tokio::task::JoinSet;

pub(super) async fn look_again(
    desired: &Desired,
    pve: &mut Pve,
    nodes: &BTreeMap<String, TalosSeen>,
    client: &Client,
) {
    let mut looks = JoinSet::new();
    for placed in places(desired, pve).nodes {
        let (node, VmPresence::Owned(found)) = (placed.node, &placed.state) else { continue };
        // Whoever else answers at its address tells nothing about it.
        let is_heard = matches!(
            nodes.get(&node.name),
            Some(TalosSeen::OwnNode(_) | TalosSeen::Maintenance { mismatch: None })
        );
        // Those that do not run Talos are looked at in another way, once they are made.
        let is_other = !node.is_talos && found.marker.stage == Stage::Made;
        if is_heard || is_other || !found.seen.is_running {
            continue;
        }
        let (client, vm) = (client.clone(), placed.own.vm.clone());
        looks.spawn(async move {
            let now = client.send(&qemu::current(&vm)).await;
            (vm.vmid, now.map_or(true, |now| now.running))
        });
    }
    for (vmid, is_running) in looks.join_all().await {
        if let Some(seen) = pve.vms.get_mut(&vmid) {
            seen.is_running = is_running;
        }
    }
}
