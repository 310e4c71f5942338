use std::net::IpAddr;

use serde_json::Value;

use super::Vm;
use crate::id::MacAddress;
use crate::request::Request;
use crate::wire::{Decode, Fields, Unreadable};

/// Checks whether the guest agent answers. If it does not, the rejection contains the reason.
pub fn agent_ping(vm: &Vm) -> Request<()> {
    vm.post(&[&"agent", &"ping"])
}

/// Network interface inside the guest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AgentInterface {
    pub name: String,
    /// MAC address; `None` for an interface without one, such as a tunnel.
    pub mac: Option<MacAddress>,
    pub addresses: Vec<AgentAddress>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AgentAddress {
    pub ip: IpAddr,
    pub prefix: Option<u8>,
}

/// Interfaces of a guest. Proxmox wraps the answer of the agent in another object, which is removed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AgentInterfaces(pub Vec<AgentInterface>);

impl Decode for AgentInterfaces {
    fn decode(data: &Value) -> Result<Self, Unreadable> {
        let interface = |fields: Fields<'_>| {
            let address = |fields: Fields<'_>| {
                Some(AgentAddress {
                    ip: fields.text("ip-address")?.split('%').next()?.parse().ok()?,
                    prefix: fields.number("prefix").and_then(|prefix| prefix.try_into().ok()),
                })
            };
            Ok(AgentInterface {
                name: fields.need_text("name")?,
                mac: fields.text("hardware-address").and_then(|mac| mac.parse().ok()),
                addresses: fields.objects("ip-addresses").filter_map(address).collect(),
            })
        };
        Fields::of(data)?.objects("result").map(interface).collect::<Result<_, _>>().map(Self)
    }
}

/// Reads the interfaces of a guest from its agent.
pub fn agent_interfaces(vm: &Vm) -> Request<AgentInterfaces> {
    vm.get(&[&"agent", &"network-get-interfaces"])
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn interfaces_without_addresses_are_decoded() {
        let data = json!({"result": [
            {"name": "lo"},
            {"name": "eth0", "hardware-address": "bc:24:11:00:00:01", "ip-addresses": [
                {"ip-address": "10.0.0.11", "ip-address-type": "ipv4", "prefix": 24},
                {"ip-address": "fe80::1%eth0", "prefix": "64"},
                {"ip-address": "odd"},
            ]},
        ]});
        let AgentInterfaces(interfaces) = AgentInterfaces::decode(&data).unwrap();
        assert_eq!(interfaces[0].addresses, []);
        assert_eq!(interfaces[1].addresses.len(), 2);
        assert_eq!(interfaces[1].addresses[1].prefix, Some(64));
        assert!(interfaces[1].mac.is_some());
    }
}
