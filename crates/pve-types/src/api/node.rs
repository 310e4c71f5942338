//! Calls about hosts: the list of hosts, bridges and PCI devices.

use serde_json::Value;

use crate::fingerprint::Fingerprint;
use crate::id::{BridgeName, NodeName};
use crate::request::Request;
use crate::wire::{Decode, Fields, Unreadable};

#[derive(Clone, Debug, PartialEq)]
pub struct Node {
    pub node: NodeName,
    /// `online`, `offline` or `unknown`.
    pub status: String,
    /// Fingerprint of the certificate on the API port of the host.
    pub fingerprint: Option<Fingerprint>,
    /// Proxmox hides this and the following fields from callers without Sys.Audit.
    pub cpu: Option<f64>,
    pub max_cpu: Option<u64>,
    pub memory: Option<u64>,
    pub max_memory: Option<u64>,
    pub uptime: Option<u64>,
}

impl Decode for Node {
    fn decode(data: &Value) -> Result<Self, Unreadable> {
        let fields = Fields::of(data)?;
        Ok(Self {
            node: fields.need("node")?,
            status: fields.text("status").unwrap_or_else(|| "unknown".to_owned()),
            fingerprint: fields.text("ssl_fingerprint").and_then(|text| text.parse().ok()),
            cpu: fields.fraction("cpu"),
            max_cpu: fields.number("maxcpu"),
            memory: fields.number("mem"),
            max_memory: fields.number("maxmem"),
            uptime: fields.number("uptime"),
        })
    }
}

pub fn list() -> Request<Vec<Node>> {
    Request::get(&[&"nodes"])
}

/// Bridge or virtual network that a NIC can be attached to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bridge {
    pub name: BridgeName,
    /// `bridge`, `OVSBridge` or `vnet`.
    pub kind: String,
    pub active: bool,
    pub vlan_aware: bool,
    pub cidr: Option<String>,
    pub comments: Option<String>,
}

impl Decode for Bridge {
    fn decode(data: &Value) -> Result<Self, Unreadable> {
        let fields = Fields::of(data)?;
        let kind = fields.text("type").unwrap_or_else(|| "bridge".to_owned());
        Ok(Self {
            name: fields.need("iface")?,
            active: fields.flag("active"),
            // An Open vSwitch bridge always supports VLANs.
            vlan_aware: fields.flag("bridge_vlan_aware") || kind == "OVSBridge",
            kind,
            cidr: fields.text("cidr"),
            comments: fields.text("comments"),
        })
    }
}

pub fn bridges(node: &NodeName) -> Request<Vec<Bridge>> {
    Request::get(&[&"nodes", node, &"network"]).with("type", "any_bridge").on(node)
}

/// PCI device of a host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PciDevice {
    /// PCI address, such as `0000:28:00.0`.
    pub address: String,
    /// Vendor ID: four hexadecimal digits, without `0x`.
    pub vendor: String,
    pub device: String,
    pub subsystem_vendor: Option<String>,
    pub subsystem_device: Option<String>,
    /// Class: six hexadecimal digits, without `0x`.
    pub class: String,
    /// IOMMU group; `None` if the host has no IOMMU. A device without a group cannot be passed through.
    pub iommu_group: Option<u64>,
    pub vendor_name: Option<String>,
    pub device_name: Option<String>,
    /// Whether the device supports mediated devices.
    pub mediated: bool,
}

impl Decode for PciDevice {
    fn decode(data: &Value) -> Result<Self, Unreadable> {
        let fields = Fields::of(data)?;
        let hex = |key: &str| {
            let text = fields.text(key)?;
            Some(text.strip_prefix("0x").unwrap_or(&text).to_ascii_lowercase())
        };
        let need = |key: &str| hex(key).ok_or_else(|| Unreadable(format!("`{key}` is missing")));
        Ok(Self {
            address: fields.need_text("id")?,
            vendor: need("vendor")?,
            device: need("device")?,
            subsystem_vendor: hex("subsystem_vendor"),
            subsystem_device: hex("subsystem_device"),
            class: hex("class").unwrap_or_default(),
            // Proxmox reports -1 if the host has no IOMMU.
            iommu_group: fields.number("iommugroup"),
            vendor_name: fields.text("vendor_name"),
            device_name: fields.text("device_name"),
            mediated: fields.flag("mdev"),
        })
    }
}

/// Lists the PCI devices of a host. The server omits bridges and similar devices.
pub fn pci_devices(node: &NodeName) -> Request<Vec<PciDevice>> {
    Request::get(&[&"nodes", node, &"hardware", &"pci"]).on(node)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn hosts_without_load_figures_are_decoded() {
        let node = Node::decode(&json!({"node": "pve1", "status": "online"})).unwrap();
        assert_eq!((node.cpu, node.fingerprint), (None, None));
        let pin = "ab:".repeat(31) + "AB";
        let node =
            Node::decode(&json!({"node": "pve1", "ssl_fingerprint": pin, "maxcpu": "8"})).unwrap();
        assert_eq!(node.fingerprint, Some(Fingerprint([0xab; 32])));
        assert_eq!(node.max_cpu, Some(8));
    }

    #[test]
    fn device_ids_are_decoded_without_0x() {
        let data = json!({
            "id": "0000:28:00.0", "vendor": "0x10de", "device": "0x2204", "class": "0x030000", "iommugroup": -1,
        });
        let device = PciDevice::decode(&data).unwrap();
        assert_eq!((&*device.vendor, &*device.device, &*device.class), ("10de", "2204", "030000"));
        assert_eq!(device.iommu_group, None);
    }

    #[test]
    fn the_bridge_request_includes_virtual_networks() {
        let node = "pve1".parse().unwrap();
        assert_eq!(bridges(&node).target(), "/api2/json/nodes/pve1/network?type=any_bridge");
        let ovs =
            Bridge::decode(&json!({"iface": "vmbr1", "type": "OVSBridge", "active": 1})).unwrap();
        assert!(ovs.vlan_aware && ovs.active);
    }
}
