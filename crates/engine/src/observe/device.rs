//! Observing PCI devices: their mappings, the devices of hosts, and the VMs that use them.

use std::collections::BTreeSet;

use talmox_plan::desired::{Desired, GpuSource};
use talmox_plan::observed::{PassedOn, Pve};
use talmox_plan::planning::{VmPresence, places};
use talmox_pve::Client;
use talmox_pve::api::cluster::Guest;
use talmox_pve::api::qemu::{self, Vm};
use talmox_pve::api::{mapping, node};
use tokio::task::JoinSet;

use super::answer::answer;

/// Hosts on which a VM with a device will be created.
#[derive(Debug, Default)]
struct DeviceHosts {
    all: BTreeSet<talmox_pve::id::NodeName>,
    /// Hosts on which the inventory names the device by its PCI address, so that it has no mapping yet.
    unnamed: BTreeSet<talmox_pve::id::NodeName>,
}

/// Observes PCI mappings and devices, if the inventory sets a PCI device for a node.
pub(super) async fn look(desired: &Desired, client: &Client, pve: &mut Pve) {
    if desired.nodes.iter().all(|node| node.vm.gpu.is_none()) {
        return;
    }
    let hosts = hosts(desired, pve);
    let mut listed = JoinSet::new();
    // The list of devices also shows whether the host has an IOMMU.
    let may_list = pve.permissions.allows("/", "Sys.Audit") || desired.login.is_root();
    for host in if may_list { &hosts.all } else { &hosts.unnamed } {
        let (client, host) = (client.clone(), host.clone());
        listed.spawn(async move {
            let devices = answer(client.send(&node::pci_devices(&host)).await);
            (host, devices)
        });
    }
    let mut held = JoinSet::new();
    for guest in unread_vms(pve, &hosts) {
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

/// The VMs on these hosts that were not read yet.
fn unread_vms(pve: &Pve, hosts: &DeviceHosts) -> Vec<Guest> {
    let is_one = |guest: &&Guest| {
        guest.is_vm
            && !guest.template
            && hosts.all.contains(&guest.node)
            && !pve.vms.contains_key(&guest.vmid)
    };
    pve.resources.guests.iter().filter(is_one).cloned().collect()
}

/// Reads the mappings, which are the same for all hosts, and their problems, which differ from host to host.
async fn mappings(client: &Client, pve: &mut Pve, hosts: &DeviceHosts) {
    if hosts.all.is_empty() {
        pve.mappings = Some(answer(client.send(&mapping::list(None)).await));
    }
    for host in &hosts.all {
        let listed = client.send(&mapping::list(Some(host))).await;
        for one in listed.iter().flatten().filter(|one| !one.mapped.problems.is_empty()) {
            let place = (host.clone(), one.id.clone());
            pve.mapping_problems.insert(place, one.mapped.problems.clone());
        }
        pve.mappings.get_or_insert(answer(listed));
    }
}
