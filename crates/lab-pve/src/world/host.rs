use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// A member of the cluster.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Host {
    pub online: bool,
    pub ip: String,
    pub cores: u32,
    /// In bytes.
    pub memory: u64,
    pub bridges: Vec<Bridge>,
    pub pci: Vec<PciDevice>,
    /// Since when it is up, in seconds since 1970.
    pub booted: u64,
    /// `search`, `dns1` to `dns3`, `timezone`.
    #[serde(default)]
    pub settings: BTreeMap<String, String>,
}

/// The search domain of a host that the installer was told of none for.
const USUAL_DOMAIN: &str = "lan";

impl Host {
    /// What its resolv.conf says: `search`, `dns1` to `dns3`. By default it asks its router.
    pub(crate) fn resolver(&self) -> BTreeMap<&'static str, String> {
        let keys = ["search", "dns1", "dns2", "dns3"].into_iter();
        let mut found: BTreeMap<&'static str, String> =
            keys.filter_map(|key| Some((key, self.settings.get(key)?.clone()))).collect();
        if found.is_empty() {
            let gateway = self.bridges.iter().find_map(|bridge| bridge.gateway.clone());
            found.insert("search", USUAL_DOMAIN.to_owned());
            found.extend(gateway.map(|gateway| ("dns1", gateway)));
        }
        found
    }
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Bridge {
    pub name: String,
    pub cidr: Option<String>,
    pub gateway: Option<String>,
    pub vlan_aware: bool,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct PciDevice {
    /// `0000:28:00.0`.
    pub address: String,
    pub class: String,
    pub vendor: String,
    pub device: String,
    pub vendor_name: Option<String>,
    pub device_name: Option<String>,
    /// -1 where the host runs without an IOMMU.
    pub iommu_group: i32,
    pub subsystem_vendor: Option<String>,
    pub subsystem_device: Option<String>,
    #[serde(default)]
    pub subsystem_vendor_name: Option<String>,
    #[serde(default)]
    pub subsystem_device_name: Option<String>,
}
