//! Machines with another system than Talos that are not up although their VMs run.
//!
//! The guest agent gives the best answer, but needs a request to Proxmox for each machine. So among machines with an open SSH
//! port, only the agent of the machine that was started last is queried: if its first boot has ended, the first boots of machines
//! that were started earlier have ended too. Among machines without an open SSH port, a few agents are queried. If one machine is
//! not up, all agents are queried.

use std::collections::BTreeMap;

use talmox_plan::desired::{Contact, Desired};
use talmox_plan::observed::Pve;
use talmox_plan::ownership::Stage;
use talmox_plan::planning::{VmPresence, places};
use talmox_pve::Client;
use talmox_pve::api::qemu::{self, Vm};
use talmox_talos_api::{Look, Reach};
use tokio::task::JoinSet;

use super::sources::TalosAccess;
use crate::other_system::{look, ssh_port};

/// Uptime, in seconds, after which the agent of a machine with an open SSH port is not queried.
const SETTLED: u64 = 60 * 60;
/// Number of machines without an open SSH port whose agents are queried first.
const FEW: usize = 2;

/// A machine that should be up.
#[derive(Clone)]
struct OtherMachine {
    name: String,
    vm: Vm,
    contact: Contact,
    has_agent: bool,
    /// Uptime in seconds. 0 if Proxmox does not report one yet.
    uptime: u64,
}

/// Clients for the requests.
#[derive(Clone)]
struct Access {
    client: Client,
    reach: Reach,
}

/// The nodes without Talos that are not up, with the reason. The list of VMs may still show a VM as running that was just
/// stopped. So this function requests the state of each such VM, sets it in `pve`, and omits stopped VMs from the result.
pub(super) async fn silent_nodes(
    desired: &Desired,
    pve: &mut Pve,
    client: &Client,
    access: &TalosAccess,
) -> BTreeMap<String, String> {
    let ask = Access { client: client.clone(), reach: access.settings.reach.clone() };
    let (mut open, mut closed, mut without_agent) = (vec![], vec![], vec![]);
    for (machine, seen) in each(machines(desired, pve), &ask, by_ssh_port).await {
        match (seen, machine.contact) {
            (Look::Done(()), _) => open.push(machine),
            // Without an agent, only the SSH port shows whether the machine is up.
            (Look::NotYet(reason), Contact::At(_)) if !machine.has_agent => {
                without_agent.push((machine, reason));
            }
            (Look::NotYet(_), _) => closed.push(machine),
        }
    }
    open.retain(|machine| machine.has_agent && machine.uptime < SETTLED);
    open.sort_by_key(|machine| machine.uptime);
    closed.sort_by_key(|machine| machine.uptime);
    let unasked = [open.split_off(open.len().min(1)), closed.split_off(closed.len().min(FEW))];
    let mut silent = not_up(each([open, closed].concat(), &ask, by_agent).await);
    silent.extend(without_agent);
    if !silent.is_empty() {
        silent.extend(not_up(each(unasked.concat(), &ask, by_agent).await));
    }
    let machines = silent.iter().map(|(machine, _)| machine.clone()).collect();
    for (machine, runs) in each(machines, &ask, by_power_state).await {
        if matches!(runs, Look::NotYet(_)) {
            silent.retain(|(other, _)| other.name != machine.name);
            if let Some(seen) = pve.vms.get_mut(&machine.vm.vmid) {
                seen.is_running = false;
            }
        }
    }
    silent.into_iter().map(|(machine, reason)| (machine.name, reason)).collect()
}

/// The machines without Talos whose VMs are finished and running.
fn machines(desired: &Desired, pve: &Pve) -> Vec<OtherMachine> {
    let all = places(desired, pve).nodes.into_iter().filter_map(|placed| {
        let (node, VmPresence::Owned(found)) = (placed.node, &placed.state) else { return None };
        let is_made = found.marker.stage == Stage::Made && found.seen.is_running;
        let uptime = pve.guest(placed.own.vm.vmid).and_then(|guest| guest.uptime);
        (!node.is_talos && is_made).then(|| OtherMachine {
            name: node.name.clone(),
            vm: placed.own.vm.clone(),
            contact: node.contact,
            has_agent: node.vm.has_agent,
            uptime: uptime.unwrap_or_default(),
        })
    });
    all.collect()
}

/// Checks all machines at the same time.
async fn each<F: Future<Output = Look<()>> + Send>(
    machines: Vec<OtherMachine>,
    ask: &Access,
    how: impl Fn(OtherMachine, Access) -> F + Copy + Send + 'static,
) -> Vec<(OtherMachine, Look<()>)> {
    let mut looks = JoinSet::new();
    for machine in machines {
        let ask = ask.clone();
        looks.spawn(async move { (machine.clone(), how(machine, ask).await) });
    }
    looks.join_all().await
}

async fn by_ssh_port(machine: OtherMachine, ask: Access) -> Look<()> {
    match machine.contact {
        Contact::At(address) => ssh_port(address, &ask.reach).await,
        Contact::AskAgent => Look::NotYet("its address is not known".to_owned()),
    }
}

async fn by_agent(machine: OtherMachine, ask: Access) -> Look<()> {
    let OtherMachine { vm, contact, has_agent, .. } = machine;
    look(&vm, contact, has_agent, &ask.client, &ask.reach).await
}

async fn by_power_state(machine: OtherMachine, ask: Access) -> Look<()> {
    match ask.client.send(&qemu::current(&machine.vm)).await {
        Ok(now) if !now.running => Look::NotYet("it is stopped".to_owned()),
        _ => Look::Done(()),
    }
}

fn not_up(seen: Vec<(OtherMachine, Look<()>)>) -> Vec<(OtherMachine, String)> {
    let silent = seen.into_iter().filter_map(|(machine, look)| match look {
        Look::Done(()) => None,
        Look::NotYet(reason) => Some((machine, reason)),
    });
    silent.collect()
}
