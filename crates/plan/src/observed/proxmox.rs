//! Observed state of Proxmox.

use std::collections::BTreeMap;

use serde::Serialize;
use talmox_pve_types::api::access::Permissions;
use talmox_pve_types::api::cluster::{Guest, HostResource, Resources, StorageResource, Version};
use talmox_pve_types::api::mapping::PciMapping;
use talmox_pve_types::api::node::{Bridge, PciDevice};
use talmox_pve_types::api::qemu::MigrateCheck;
use talmox_pve_types::api::storage::Volume;
use talmox_pve_types::config::{PendingOption, VmConfig};
use talmox_pve_types::id::{ConfigId, NodeName, StorageId, Upid, VmId};
use talmox_pve_types::property::HostPci;

use super::unobserved::{Answer, Unobserved};
use super::vm_address::VmAddress;

/// Observed state of Proxmox.
#[derive(Clone, Debug, Default)]
pub struct Pve {
    pub version: Option<Version>,
    pub permissions: Permissions,
    pub resources: Resources,
    /// The VMs with a vmid, name or tags of this cluster. Only their configs show whether they are owned VMs.
    pub vms: BTreeMap<VmId, VmSeen>,
    /// VMs without a vmid, name or tags of this cluster whose configs could not be read. Any of them may have a marker
    /// of this cluster.
    pub unread: BTreeMap<VmId, Unread>,
    /// State of the VM ids that were checked.
    pub ids: BTreeMap<VmId, IdSeen>,
    /// The files on the storages that planning needs, by host and storage.
    pub contents: BTreeMap<(NodeName, StorageId), Answer<Vec<Volume>>>,
    /// Hosts whose storages were requested and could not be listed, with the reason.
    pub unlisted: BTreeMap<NodeName, Unobserved>,
    /// The bridges of hosts that get new VMs.
    pub bridges: BTreeMap<NodeName, Answer<Vec<Bridge>>>,
    /// The PCI mappings. None if no node has a PCI device.
    pub mappings: Option<Answer<Vec<PciMapping>>>,
    pub devices: BTreeMap<NodeName, Answer<Vec<PciDevice>>>,
    /// Problems with mappings, as the hosts report them.
    /// Conditions for the migration of VMs whose `host:` is another host. A VM is missing if Proxmox did not report them.
    pub migrations: BTreeMap<VmId, MigrateCheck>,
    pub mapping_problems: BTreeMap<(NodeName, ConfigId), Vec<String>>,
    /// PCI devices of foreign VMs, on the hosts that get a VM with a PCI device.
    pub passed_on: BTreeMap<VmId, PassedOn>,
    /// Addresses of this cluster that foreign VMs have. Empty unless the addresses of all VMs were requested.
    pub addresses: Vec<VmAddress>,
}

impl Pve {
    pub fn guest(&self, vmid: VmId) -> Option<&Guest> {
        self.resources.guests.iter().find(|guest| guest.vmid == vmid)
    }

    pub fn host(&self, name: &NodeName) -> Option<&HostResource> {
        self.resources.hosts.iter().find(|host| host.node == *name)
    }

    pub fn storage(&self, host: &NodeName, storage: &StorageId) -> Option<&StorageResource> {
        let mut storages = self.resources.storages.iter();
        storages.find(|seen| seen.node == *host && seen.storage == *storage)
    }

    /// Whether Proxmox reports a host as online. False if the token may not see the host.
    pub fn is_online(&self, name: &NodeName) -> bool {
        self.host(name).is_some_and(|host| host.status == "online")
    }
}

/// A VM that may be an owned VM.
#[derive(Clone, Debug)]
pub struct VmSeen {
    pub host: NodeName,
    pub is_running: bool,
    pub config: Answer<VmConfig>,
    /// Options whose change takes effect at the next start of the VM. Empty if the config could not be read.
    pub pending: Vec<PendingOption>,
}

/// A VM whose config could not be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unread {
    pub host: NodeName,
    pub reason: Unobserved,
}

/// State of a VM id.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum IdSeen {
    Free,
    /// A VM whose config the token cannot read uses the vmid.
    Taken {
        /// The task of this login that is creating the VM at this moment.
        making: Option<Upid>,
        /// Whether a task of this login created the VM, or worked on it last.
        made_by_login: bool,
        lock: Option<String>,
    },
}

/// The PCI devices that are passed through to a VM.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PassedOn {
    pub host: NodeName,
    pub name: Option<String>,
    pub is_running: bool,
    pub devices: Vec<HostPci>,
}

impl PassedOn {
    pub fn of(host: &NodeName, is_running: bool, config: &VmConfig) -> Self {
        let is_device = |key: &str| {
            key.strip_prefix("hostpci").is_some_and(|number| number.parse::<u8>().is_ok())
        };
        let devices = config.iter().filter(|(key, _)| is_device(key));
        Self {
            host: host.clone(),
            name: config.name().map(str::to_owned),
            is_running,
            devices: devices.map(|(_, value)| HostPci::parse(value)).collect(),
        }
    }
}
