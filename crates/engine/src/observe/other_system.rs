//! Machines that do not run Talos, and are not up though their VMs run.

use std::collections::BTreeMap;

use talmox_pve::Client;
use talmox_talos_api::Look;
use tokio::task::JoinSet;

use super::TalosAccess;
use super::world::Pve;
use crate::desired::Desired;
use crate::other_system::{door, look};
use crate::ownership::Stage;
use crate::plan::Contact;
use crate::plan::place::{State, places};

/// Where one can log in to a machine that has run for longer than this, nobody asks its agent: that
/// takes a call for each.
const SETTLED: u64 = 60 * 60;

/// Why each is not up, by the names of the nodes.
pub(super) async fn look_at_all(
    desired: &Desired,
    pve: &Pve,
    client: &Client,
    access: &TalosAccess,
) -> BTreeMap<String, String> {
    let mut looks = JoinSet::new();
    for placed in places(desired, pve).nodes {
        let (node, State::Ours(found)) = (placed.node, &placed.state) else { continue };
        let is_made = found.marker.stage == Stage::Made && found.seen.is_running;
        if node.is_talos || !is_made {
            continue;
        }
        let uptime = pve.guest(placed.own.vm.vmid).and_then(|guest| guest.uptime);
        let is_settled = uptime.is_some_and(|uptime| uptime >= SETTLED);
        let (contact, has_agent) = (node.contact, node.vm.has_agent);
        let (name, vm, client) = (node.name.clone(), placed.own.vm.clone(), client.clone());
        let reach = access.settings.reach.clone();
        looks.spawn(async move {
            if let Contact::At(address) = contact
                && is_settled
                && let Look::Done(()) = door(address, &reach).await
            {
                return (name, Look::Done(()));
            }
            let seen = look(&vm, contact, has_agent, &client, &reach).await;
            (name, seen)
        });
    }
    let seen = looks.join_all().await.into_iter();
    let silent = seen.filter_map(|(name, look)| match look {
        Look::Done(()) => None,
        Look::NotYet(reason) => Some((name, reason)),
    });
    silent.collect()
}
