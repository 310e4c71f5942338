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
    #[serde(default)]
    pub(crate) subsystem_vendor_name: Option<String>,
    #[serde(default)]
    pub(crate) subsystem_device_name: Option<String>,
}
