//! Power state of VMs whose nodes do not answer. The list of all VMs is some seconds old. It may show a VM as running that
//! was just stopped, so the state of these VMs is requested one by one.

use std::collections::BTreeMap;

use talmox_plan::desired::Desired;
use talmox_plan::observed::{Pve, TalosSeen};
use talmox_plan::ownership::Stage;
use talmox_plan::planning::{VmPresence, places};
use talmox_pve::Client;
use talmox_pve::api::qemu;
use tokio::task::JoinSet;

pub(super) async fn refresh_power_states(
    desired: &Desired,
    pve: &mut Pve,
    nodes: &BTreeMap<String, TalosSeen>,
    client: &Client,
) {
    let mut looks = JoinSet::new();
    for placed in places(desired, pve).nodes {
        let (node, VmPresence::Owned(found)) = (placed.node, &placed.state) else { continue };
        // An answer of another machine at the address of the node does not show that the VM runs.
        let is_heard = matches!(
            nodes.get(&node.name),
            Some(TalosSeen::OwnNode(_) | TalosSeen::Maintenance { mismatch: None })
        );
        // Finished VMs with another system than Talos are checked in `other_system.rs`.
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
