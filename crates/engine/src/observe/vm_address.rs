//! Addresses of foreign VMs, from their configs and guest agents. A plan would take too long with so many requests, so only
//! `check --live` sends them.

use std::collections::BTreeSet;
use std::net::IpAddr;

use talmox_plan::desired::Desired;
use talmox_plan::observed::{AddressSource, Pve, VmAddress};
use talmox_plan::planning::{VmPresence, places};
use talmox_pve::Client;
use talmox_pve::api::cluster::Guest;
use talmox_pve::api::qemu::{self, Vm};
use talmox_pve::config::VmConfig;
use tokio::task::JoinSet;

use super::vm_config::configs;

/// Finds the foreign VMs with an address of this cluster. A VM that cannot be read, or whose agent does not answer, is omitted.
pub(super) async fn search(desired: &Desired, client: &Client, pve: &mut Pve) {
    let nodes = desired.nodes.iter().flat_map(|node| node.addresses.iter().copied());
    let expected: BTreeSet<IpAddr> = nodes.chain(desired.vip).collect();
    let own = places(desired, pve).nodes.into_iter();
    let own = own.filter(|placed| matches!(placed.state, VmPresence::Owned(_)));
    let own: BTreeSet<_> = own.map(|placed| placed.own.vm.vmid).collect();
    let is_foreign = |guest: &&Guest| guest.is_vm && !guest.template && !own.contains(&guest.vmid);
    let guests: Vec<Guest> = pve.resources.guests.iter().filter(is_foreign).cloned().collect();
    let mut found = vec![];
    let mut agents = JoinSet::new();
    for (guest, config) in configs(client, guests).await {
        let Ok(config) = config else { continue };
        // For some seconds after its start, Proxmox lists a VM without its state.
        let is_running = guest.status != "stopped";
        found.extend(VmAddress::of_config(guest.vmid, &config, is_running));
        if is_running && has_agent(&config) {
            let name = config.name().map(str::to_owned);
            agents.spawn(by_agent(client.clone(), guest, name));
        }
    }
    found.extend(agents.join_all().await.into_iter().flatten());
    found.retain(|one| expected.contains(&one.address));
    pve.addresses = found;
}

/// Whether the guest agent of a VM is enabled: `1`, `1,fstrim_cloned_disks=1` or `enabled=1`.
fn has_agent(config: &VmConfig) -> bool {
    let agent = config.get("agent").unwrap_or_default();
    agent.split(',').any(|part| matches!(part, "1" | "enabled=1"))
}

async fn by_agent(client: Client, guest: Guest, name: Option<String>) -> Vec<VmAddress> {
    let vm = Vm::new(&guest.node, guest.vmid);
    let Ok(interfaces) = client.send(&qemu::agent_interfaces(&vm)).await else { return vec![] };
    let addresses = interfaces.0.into_iter().flat_map(|interface| interface.addresses);
    let found = |ip: IpAddr| VmAddress {
        vmid: guest.vmid,
        name: name.clone(),
        address: ip,
        source: AddressSource::Agent,
        is_running: true,
    };
    addresses.map(|address| found(address.ip)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn agents_are_enabled_in_several_notations() {
        let config = |agent: &str| VmConfig::new([("agent".to_owned(), agent.to_owned())]);
        for enabled in ["1", "1,type=virtio", "enabled=1,fstrim_cloned_disks=1"] {
            assert!(has_agent(&config(enabled)), "{enabled}");
        }
        for disabled in ["0", "enabled=0", "enabled=0,fstrim_cloned_disks=1"] {
            assert!(!has_agent(&config(disabled)), "{disabled}");
        }
        assert!(!has_agent(&VmConfig::default()));
    }
}
