//! The address of a node, from the inventory or from its guest agent. Also checks which parts of its identity a machine has
//! not reported.

use std::net::IpAddr;

use talmox_plan::desired::Contact;
use talmox_pve::api::qemu::{AgentInterface, Vm, agent_interfaces};
use talmox_pve::{Client, PveError};
use talmox_talos_api::{Expected, Look, Machine};

/// The address of a node. `NotYet` if the guest agent does not report an address. The agent starts with the system, so it may
/// report one later.
pub(crate) async fn locate(contact: Contact, vm: &Vm, pve: &Client) -> Look<IpAddr> {
    if let Contact::At(address) = contact {
        return Look::Done(address);
    }
    match cards(vm, pve).await {
        Look::Done(cards) => first(&cards),
        Look::NotYet(reason) => Look::NotYet(reason),
    }
}

/// The address of a node according to its guest agent: `address` if the agent reports it, otherwise the first address that
/// the agent reports.
pub(crate) async fn confirm(address: IpAddr, vm: &Vm, pve: &Client) -> Look<IpAddr> {
    match cards(vm, pve).await {
        Look::Done(cards) => {
            let mut all = cards.iter().flat_map(|card| &card.addresses);
            if all.any(|own| own.ip == address) { Look::Done(address) } else { first(&cards) }
        }
        Look::NotYet(reason) => Look::NotYet(reason),
    }
}

/// The network cards that a guest agent reports.
async fn cards(vm: &Vm, pve: &Client) -> Look<Vec<AgentInterface>> {
    match pve.send(&agent_interfaces(vm)).await {
        Ok(interfaces) => Look::Done(interfaces.0),
        Err(PveError::Rejected(rejection)) => {
            Look::NotYet(format!("its guest agent does not answer: {}", rejection.message))
        }
        Err(error) => Look::NotYet(error.to_string()),
    }
}

fn first(cards: &[AgentInterface]) -> Look<IpAddr> {
    match cards.iter().find_map(address_of) {
        Some(address) => Look::Done(address),
        None => Look::NotYet("its guest agent reports no address yet".to_owned()),
    }
}

/// The first part of its identity that a machine has not reported yet. A machine that is starting may lack any part, so a
/// missing part does not show that it is another machine.
pub(crate) fn missing_identity(machine: &Machine, expected: &Expected) -> Option<&'static str> {
    if expected.uuid.is_some() && machine.uuid.is_none() {
        Some("SMBIOS UUID")
    } else if expected.instance_id.is_some() && machine.instance_id.is_none() {
        Some("instance id")
    } else if !expected.macs.is_empty() && machine.macs.is_empty() {
        Some("network cards")
    } else {
        None
    }
}

/// The IPv4 address of a network card. Other interfaces, such as bridges and tunnels of Kubernetes, are excluded by their
/// names. Shared addresses are excluded by their prefix length of 32.
fn address_of(interface: &AgentInterface) -> Option<IpAddr> {
    let is_card = ["eth", "en"].iter().any(|start| interface.name.starts_with(start));
    let mut addresses = interface.addresses.iter().filter(|_| is_card);
    let found = addresses.find(|address| {
        let is_own = address.prefix.is_none_or(|prefix| prefix < 32);
        matches!(address.ip, IpAddr::V4(ip) if !ip.is_link_local() && !ip.is_loopback()) && is_own
    });
    found.map(|address| address.ip)
}

#[cfg(test)]
mod tests {
    use super::*;
    use talmox_pve::api::qemu::AgentAddress;

    #[test]
    fn a_network_card_is_distinguished_from_interfaces_of_kubernetes() {
        let interface = |name: &str, addresses: &[(&str, u8)]| AgentInterface {
            name: name.to_owned(),
            mac: None,
            addresses: addresses
                .iter()
                .map(|(ip, prefix)| AgentAddress { ip: ip.parse().unwrap(), prefix: Some(*prefix) })
                .collect(),
        };
        let all = [
            interface("lo", &[("127.0.0.1", 8)]),
            interface("cni0", &[("10.244.0.1", 24)]),
            interface("eth0", &[("fe80::1", 64), ("10.0.0.20", 32), ("10.0.0.11", 24)]),
        ];
        let found: Vec<IpAddr> = all.iter().filter_map(address_of).collect();
        assert_eq!(found, ["10.0.0.11".parse::<IpAddr>().unwrap()]);
    }
}
