use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// A member of the cluster.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Host {
    pub(crate) online: bool,
    pub(crate) ip: String,
    pub(crate) cores: u32,
    /// In bytes.
    pub(crate) memory: u64,
    pub(crate) bridges: Vec<Bridge>,
    pub(crate) pci: Vec<PciDevice>,
    /// Since when it is up, in seconds since 1970.
    pub(crate) booted: u64,
    /// `search`, `dns1` to `dns3`, `timezone`.
    #[serde(default)]
    pub(crate) settings: BTreeMap<String, String>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Bridge {
    pub(crate) name: String,
    pub(crate) cidr: Option<String>,
    pub(crate) gateway: Option<String>,
    pub(crate) vlan_aware: bool,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct PciDevice {
    /// `0000:28:00.0`.
    pub(crate) address: String,
    pub(crate) class: String,
    pub(crate) vendor: String,
    pub(crate) device: String,
    pub(crate) vendor_name: Option<String>,
    pub(crate) device_name: Option<String>,
    /// -1 where the host runs without an IOMMU.
    pub(crate) iommu_group: i32,
    pub(crate) subsystem_vendor: Option<String>,
    pub(crate) subsystem_device: Option<String>,
}
