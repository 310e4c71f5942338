//! Observing PCI devices: their mappings, the devices of hosts, and the VMs that use them.

use std::collections::BTreeSet;

use talmox_plan::desired::{Desired, GpuSource};
use talmox_plan::observed::{PassedOn, Pve};
use talmox_plan::planning::{VmPresence, places};
use talmox_pve::Client;
use talmox_pve::api::cluster::Guest;
use talmox_pve::api::qemu::{self, Vm};
use talmox_pve::api::{mapping, node};
use talmox_pve::config::VmConfig;
use talmox_pve::id::NodeName;
use talmox_pve::property::{HostPci, PciSource};
use tokio::task::JoinSet;

use super::answer::answer;

/// Hosts on which a VM gets a device.
#[derive(Debug, Default)]
struct DeviceHosts {
    /// Hosts on which a VM with a device will be created.
    all: BTreeSet<NodeName>,
    /// Hosts on which the inventory names the device of a VM by its PCI address, so that it may have no mapping yet. The VM may
    /// exist.
    unnamed: BTreeSet<NodeName>,
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
    let further = hosts.all.iter().filter(|_| may_list);
    for host in hosts.unnamed.iter().chain(further).collect::<BTreeSet<_>>() {
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
            // A VM whose power state Proxmox does not report may be using its devices.
            let is_running = guest.status != "stopped";
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
        let Some(gpu) = &placed.node.vm.gpu else { continue };
        let host = Some(&placed.own.vm.node).filter(|host| pve.is_online(host));
        match &placed.state {
            VmPresence::Absent => {
                hosts.all.extend(host.cloned());
                if matches!(gpu.source, GpuSource::Address(_)) {
                    hosts.unnamed.extend(host.cloned());
                }
            }
            VmPresence::Owned(found) if needs_mapping(&gpu.source, found.config) => {
                let target = placed.node.host.as_ref().filter(|host| pve.is_online(host));
                hosts.unnamed.extend(host.into_iter().chain(target).cloned());
            }
            VmPresence::Owned(_) | VmPresence::BeingMade(_) | VmPresence::Blocked => {}
        }
    }
    hosts
}

/// Whether an existing VM may need a new mapping: the inventory sets the PCI address of a device that the VM does not have by
/// its address.
fn needs_mapping(source: &GpuSource, config: &VmConfig) -> bool {
    let GpuSource::Address(address) = source else { return false };
    let found = config.get("hostpci0").map(|device| HostPci::parse(device).source);
    found != Some(PciSource::Host(address.clone()))
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
