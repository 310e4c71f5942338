//! What is known of PCI devices: their names, what hosts say of them, and who has them.

use std::collections::BTreeSet;

use talmox_plan::desired::{Desired, GpuSource};
use talmox_plan::observed::{Answer, PassedOn, Pve};
use talmox_plan::planning::{VmPresence, places};
use talmox_pve::api::cluster::Guest;
use talmox_pve::api::qemu::{self, Vm};
use talmox_pve::api::{mapping, node};
use talmox_pve::{Client, PveError};
use tokio::task::JoinSet;

/// DeviceHosts on which a VM with a device is to be made.
#[derive(Debug, Default)]
struct DeviceHosts {
    all: BTreeSet<talmox_pve::id::NodeName>,
    /// Where the device has no name yet.
    unnamed: BTreeSet<talmox_pve::id::NodeName>,
}

/// Asks all that there is to know, where a device is wanted.
pub(super) async fn look(desired: &Desired, client: &Client, pve: &mut Pve) {
    if desired.nodes.iter().all(|node| node.vm.gpu.is_none()) {
        return;
    }
    let hosts = hosts(desired, pve);
    let mut listed = JoinSet::new();
    // Who may look at devices sees by them whether there is an IOMMU.
    let may_look = pve.permissions.allows("/", "Sys.Audit") || desired.login.is_root();
    for host in if may_look { &hosts.all } else { &hosts.unnamed } {
        let (client, host) = (client.clone(), host.clone());
        listed.spawn(async move {
            let answer = client.send(&node::pci_devices(&host)).await;
            (host, told(answer))
        });
    }
    let mut held = JoinSet::new();
    for guest in strangers(pve, &hosts) {
        let client = client.clone();
        held.spawn(async move {
            let config = client.send(&qemu::config(&Vm::new(&guest.node, guest.vmid))).await;
            let is_running = guest.status == "running";
            let holder = PassedOn::of(&guest.node, is_running, &config.ok()?);
            Some((guest.vmid, holder)).filter(|(_, holder)| !holder.devices.is_empty())
        });
    }
    mappings(client, pve, &hosts).await;
    pve.devices = listed.join_all().await.into_iter().collect();
    pve.passed_on = held.join_all().await.into_iter().flatten().collect();
}

fn hosts(desired: &Desired, pve: &Pve) -> DeviceHosts {
    let mut hosts = DeviceHosts::default();
    for placed in places(desired, pve).nodes {
        let host = &placed.own.vm.node;
        let (VmPresence::Absent, Some(gpu)) = (&placed.state, &placed.node.vm.gpu) else {
            continue;
        };
        if pve.is_online(host) {
            hosts.all.insert(host.clone());
            if matches!(gpu.source, GpuSource::Address(_)) {
                hosts.unnamed.insert(host.clone());
            }
        }
    }
    hosts
}

/// The VMs on such hosts of which nothing is known yet.
fn strangers(pve: &Pve, hosts: &DeviceHosts) -> Vec<Guest> {
    let is_one = |guest: &&Guest| {
        guest.is_vm
            && !guest.template
            && hosts.all.contains(&guest.node)
            && !pve.vms.contains_key(&guest.vmid)
    };
    pve.resources.guests.iter().filter(is_one).cloned().collect()
}

/// All hosts know the same mappings; each knows what does not fit itself.
async fn mappings(client: &Client, pve: &mut Pve, hosts: &DeviceHosts) {
    if hosts.all.is_empty() {
        pve.mappings = Some(told(client.send(&mapping::list(None)).await));
    }
    for host in &hosts.all {
        let answer = client.send(&mapping::list(Some(host))).await;
        for one in answer.iter().flatten().filter(|one| !one.mapped.problems.is_empty()) {
            let place = (host.clone(), one.id.clone());
            pve.mapping_problems.insert(place, one.mapped.problems.clone());
        }
        pve.mappings.get_or_insert(told(answer));
    }
}

fn told<T>(answer: Result<T, PveError>) -> Answer<T> {
    answer.map_err(|error| error.to_string())
}
