use std::fmt;

use super::{Properties, join};
use crate::id::{BridgeName, MacAddress};

/// NIC of a VM.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Net {
    /// Model of the NIC, such as `virtio` or `e1000`.
    pub model: String,
    /// MAC address. If it is absent, Proxmox generates an address at every change.
    pub mac: Option<MacAddress>,
    pub bridge: Option<BridgeName>,
    pub vlan: Option<u16>,
    pub firewall: bool,
    pub mtu: Option<u16>,
    /// Further options, such as `queues`, `rate` and `link_down`.
    pub other: Properties,
}

const MODELS: &[&str] = &[
    "e1000",
    "e1000-82540em",
    "e1000-82544gc",
    "e1000-82545em",
    "e1000e",
    "i82551",
    "i82557b",
    "i82559er",
    "ne2k_isa",
    "ne2k_pci",
    "pcnet",
    "rtl8139",
    "virtio",
    "vmxnet3",
];

impl Net {
    pub fn virtio(mac: MacAddress, bridge: &BridgeName) -> Self {
        Self {
            model: "virtio".to_owned(),
            mac: Some(mac),
            bridge: Some(bridge.clone()),
            vlan: None,
            firewall: false,
            mtu: None,
            other: Properties::default(),
        }
    }

    /// Parses any notation of Proxmox.
    pub fn parse(text: &str) -> Self {
        let mut other = Properties::parse(text, Some("model"));
        let mut model = other.remove("model");
        let mut mac = other.remove("macaddr");
        // In the short form, the model is the key and the MAC address is the value.
        for known in MODELS {
            if let Some(address) = other.remove(known) {
                model = Some((*known).to_owned());
                mac = Some(address);
            }
        }
        let firewall = other.flag("firewall") == Some(true);
        let _absent = other.remove("firewall");
        Self {
            model: model.unwrap_or_default(),
            mac: mac.and_then(|mac| mac.parse().ok()),
            bridge: other.remove("bridge").and_then(|bridge| bridge.parse().ok()),
            vlan: other.remove("tag").and_then(|tag| tag.parse().ok()),
            firewall,
            mtu: other.remove("mtu").and_then(|mtu| mtu.parse().ok()),
            other,
        }
    }
}

impl fmt::Display for Net {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let model = match self.mac {
            Some(mac) => format!("{}={mac}", self.model),
            None => self.model.clone(),
        };
        f.write_str(&join([
            Some(model),
            self.bridge.as_ref().map(|bridge| format!("bridge={bridge}")),
            self.vlan.map(|vlan| format!("tag={vlan}")),
            self.firewall.then(|| "firewall=1".to_owned()),
            self.mtu.map(|mtu| format!("mtu={mtu}")),
            Some(self.other.to_string()),
        ]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_notations_of_a_nic_are_parsed() {
        let short = Net::parse("virtio=bc:24:11:00:00:01,bridge=vmbr0,firewall=0,tag=40");
        let long = Net::parse("model=virtio,macaddr=BC:24:11:00:00:01,tag=40,bridge=vmbr0");
        assert_eq!(short, long);
        assert_eq!(short.to_string(), "virtio=BC:24:11:00:00:01,bridge=vmbr0,tag=40");
        assert_eq!(Net::parse(&short.to_string()), short);
        let bare = Net::parse("e1000,bridge=vmbr1,queues=4,firewall=1");
        assert_eq!((bare.mac, bare.firewall), (None, true));
        assert_eq!(bare.to_string(), "e1000,bridge=vmbr1,firewall=1,queues=4");
    }
}
