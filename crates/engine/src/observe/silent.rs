//! VMs from which nothing is heard. The list of all VMs is some seconds old: one that was just stopped
//! still runs by it, so these are asked about one by one.

use std::collections::BTreeMap;
use std::time::Duration;

use talmox_pve::Client;
use talmox_pve::api::qemu;
use talmox_talos_api::Address;
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::TalosAccess;
use super::world::{Pve, TalosSeen};
use crate::desired::{Desired, DesiredNode};
use crate::plan::Contact;
use crate::plan::place::{State, places};

/// Of a socket, hence in real time.
const PATIENCE: Duration = Duration::from_secs(3);

/// Where a system answers that does not speak Talos's language.
const SSH: u16 = 22;

pub(super) async fn look_again(
    desired: &Desired,
    pve: &mut Pve,
    nodes: &BTreeMap<String, TalosSeen>,
    client: &Client,
    access: &TalosAccess,
) {
    let mut looks = JoinSet::new();
    for placed in places(desired, pve).nodes {
        let (node, State::Ours(found)) = (placed.node, &placed.state) else { continue };
        // Whoever else answers at its address tells nothing about it.
        let is_heard = matches!(
            nodes.get(&node.name),
            Some(TalosSeen::Ours(_) | TalosSeen::Maintenance { mismatch: None })
        );
        if is_heard || !found.seen.is_running {
            continue;
        }
        let (client, vm) = (client.clone(), placed.own.vm.clone());
        let door = door(node, access);
        looks.spawn(async move {
            if let Some(door) = door
                && let Ok(Ok(_)) =
                    timeout(PATIENCE, TcpStream::connect((door.host.as_str(), door.port))).await
            {
                return (vm.vmid, true);
            }
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

/// Where a system other than Talos can be knocked at.
fn door(node: &DesiredNode, access: &TalosAccess) -> Option<Address> {
    let Contact::At(address) = node.contact else { return None };
    let door = Address { host: address.to_string(), port: SSH };
    (!node.is_talos).then(|| access.settings.reach.target(&door))
}
