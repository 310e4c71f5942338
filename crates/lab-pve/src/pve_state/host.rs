use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// Proxmox VE host of the cluster.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Host {
    pub online: bool,
    pub ip: String,
    pub cores: u32,
    /// Memory of the host in bytes.
    pub memory: u64,
    pub bridges: Vec<Bridge>,
    pub pci: Vec<PciDevice>,
    /// Boot time in seconds since 1970.
    pub booted: u64,
    /// DNS and time settings: `search`, `dns1` to `dns3`, `timezone`.
    #[serde(default)]
    pub settings: BTreeMap<String, String>,
}

/// Default search domain of a host.
const DEFAULT_DOMAIN: &str = "lan";

impl Host {
    /// Resolver settings of a host: `search`, `dns1` to `dns3`. The default name server is the
    /// gateway.
    pub(crate) fn resolver(&self) -> BTreeMap<&'static str, String> {
        let keys = ["search", "dns1", "dns2", "dns3"].into_iter();
        let mut found: BTreeMap<&'static str, String> =
            keys.filter_map(|key| Some((key, self.settings.get(key)?.clone()))).collect();
        if found.is_empty() {
            let gateway = self.bridges.iter().find_map(|bridge| bridge.gateway.clone());
            found.insert("search", DEFAULT_DOMAIN.to_owned());
            found.extend(gateway.map(|gateway| ("dns1", gateway)));
        }
        found
    }
}

/// Network bridge of a host.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Bridge {
    pub name: String,
    pub cidr: Option<String>,
    pub gateway: Option<String>,
    pub vlan_aware: bool,
}

/// PCI device of a host.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct PciDevice {
    /// PCI address: `0000:28:00.0`.
    pub address: String,
    pub class: String,
    pub vendor: String,
    pub device: String,
    pub vendor_name: Option<String>,
    pub device_name: Option<String>,
    /// IOMMU group; -1 on a host without IOMMU.
    pub iommu_group: i32,
    pub subsystem_vendor: Option<String>,
    pub subsystem_device: Option<String>,
    #[serde(default)]
    pub subsystem_vendor_name: Option<String>,
    #[serde(default)]
    pub subsystem_device_name: Option<String>,
}
