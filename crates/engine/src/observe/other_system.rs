//! Machines that do not run Talos, and are not up though their VMs run.
//!
//! Agents tell best, and take a call of Proxmox for each. So where one can log in, only the agent of the youngest machine is
//! asked: if its first boot has come to its end, then so have those of machines that started before. Where one cannot, a
//! few stand for all of them. As soon as one is not up all are asked: then there is something to do anyway.

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
use crate::other_system::{door, look};

/// Where one can log in to a machine that has run for longer than this, nobody asks its agent.
const SETTLED: u64 = 60 * 60;
/// How many are asked among those to which one cannot log in from here.
const FEW: usize = 2;

/// A machine that should be up.
#[derive(Clone)]
struct OtherMachine {
    name: String,
    vm: Vm,
    contact: Contact,
    has_agent: bool,
    /// In seconds; none if Proxmox has not noticed yet that it runs.
    uptime: u64,
}

/// Whom to ask.
#[derive(Clone)]
struct Access {
    client: Client,
    reach: Reach,
}

/// Why each is not up, by the names of the nodes. A VM that was just stopped still runs by the list of all VMs: it is found out
/// here, and noted.
pub(super) async fn look_at_all(
    desired: &Desired,
    pve: &mut Pve,
    client: &Client,
    access: &TalosAccess,
) -> BTreeMap<String, String> {
    let ask = Access { client: client.clone(), reach: access.settings.reach.clone() };
    let (mut open, mut closed, mut without_agent) = (vec![], vec![], vec![]);
    for (machine, seen) in each(machines(desired, pve), &ask, at_the_door).await {
        match (seen, machine.contact) {
            (Look::Done(()), _) => open.push(machine),
            // Its door is all there is.
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
    let mut silent = not_up(each([open, closed].concat(), &ask, closely).await);
    silent.extend(without_agent);
    if !silent.is_empty() {
        silent.extend(not_up(each(unasked.concat(), &ask, closely).await));
    }
    let machines = silent.iter().map(|(machine, _)| machine.clone()).collect();
    for (machine, runs) in each(machines, &ask, whether_it_runs).await {
        if matches!(runs, Look::NotYet(_)) {
            silent.retain(|(other, _)| other.name != machine.name);
            if let Some(seen) = pve.vms.get_mut(&machine.vm.vmid) {
                seen.is_running = false;
            }
        }
    }
    silent.into_iter().map(|(machine, reason)| (machine.name, reason)).collect()
}

/// The machines of VMs that are made and run.
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

/// Looks at all of them at the same time.
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

async fn at_the_door(machine: OtherMachine, ask: Access) -> Look<()> {
    match machine.contact {
        Contact::At(address) => door(address, &ask.reach).await,
        Contact::AskAgent => Look::NotYet("its address is not known".to_owned()),
    }
}

async fn closely(machine: OtherMachine, ask: Access) -> Look<()> {
    let OtherMachine { vm, contact, has_agent, .. } = machine;
    look(&vm, contact, has_agent, &ask.client, &ask.reach).await
}

async fn whether_it_runs(machine: OtherMachine, ask: Access) -> Look<()> {
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
