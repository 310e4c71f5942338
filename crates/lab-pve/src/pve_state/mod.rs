//! State of the simulated cluster, as plain data.
//!
//! These types offer only lookups. API calls and tasks change the state. The state is locked only for single operations and
//! never across an `await`, so that many calls and tasks can share it.

mod access;
mod host;
mod sdn;
mod storage;
mod task;
mod vm;

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

pub use access::{Access, AclEntry, Caller, Token, User};
pub use host::{Bridge, Host, PciDevice};
pub(crate) use sdn::LOCAL_ZONE;
pub use sdn::{Sdn, Vnet, Zone};
pub use storage::{Backing, ContentType, SavedVolume, Storage, StorageKind, Volume, VolumeId};
pub use task::{Task, TaskState, Tasks};
pub use vm::{Agent, Config, Guest, PendingDelete, Run, Snapshot, Vm};

use super::{ApiError, Release};

/// Section of a config file: options and values.
pub(crate) type Section = BTreeMap<String, String>;

/// State of the simulated Proxmox VE cluster.
#[derive(Debug, Serialize, Deserialize)]
pub struct PveState {
    pub release: Release,
    /// Name of the cluster; `None` for a single host.
    pub cluster_name: Option<String>,
    pub hosts: BTreeMap<String, Host>,
    pub storages: BTreeMap<String, Storage>,
    pub vms: BTreeMap<u32, Vm>,
    pub access: Access,
    pub pools: BTreeMap<String, Pool>,
    pub mappings: Mappings,
    pub ha: Ha,
    #[serde(default)]
    pub sdn: Sdn,
    /// Options of `datacenter.cfg`.
    pub datacenter: BTreeMap<String, String>,
    pub tasks: Tasks,
    /// Last sample of each VM by the status daemon. `/cluster/resources` returns these samples instead of the current state.
    #[serde(skip)]
    pub sampled: BTreeMap<u32, Sample>,
}

/// Resource pool.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Pool {
    pub comment: Option<String>,
    pub vms: BTreeSet<u32>,
    pub storages: BTreeSet<String>,
}

/// Resource mappings by id. Each entry of a mapping is a property string that contains a host.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Mappings {
    pub pci: BTreeMap<String, Mapping>,
    pub usb: BTreeMap<String, Mapping>,
}

/// Resource mapping of a device.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Mapping {
    pub entries: Vec<String>,
    /// Options of the mapping: `description`, `mdev`, `live-migration-capable`.
    pub options: BTreeMap<String, String>,
}

/// HA configs, and the state of the HA manager. A config consists of sections with options.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Ha {
    /// HA resources by service id (`vm:101`).
    pub resources: BTreeMap<String, BTreeMap<String, String>>,
    /// HA groups, which only Proxmox VE 8 has.
    pub groups: BTreeMap<String, BTreeMap<String, String>>,
    pub rules: BTreeMap<String, BTreeMap<String, String>>,
    /// State of each resource in the HA manager, by service id (`vm:101`).
    #[serde(skip)]
    pub services: BTreeMap<String, HaService>,
    /// Time at which each offline host went offline.
    #[serde(skip)]
    pub missed: BTreeMap<String, u64>,
}

/// HA resource in the HA manager.
#[derive(Clone, Debug)]
pub struct HaService {
    pub node: String,
    pub state: HaServiceState,
    /// Number of consecutive failed starts of the resource.
    pub failures: u32,
}

/// State of an HA resource in the HA manager.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HaServiceState {
    Started,
    Stopped,
    /// The resource migrates to `target`: live (`online`), or with a stop and a start.
    Migrate {
        target: String,
        online: bool,
    },
    /// The host failed, but the VM may still run on it.
    Fence,
    Error,
}

/// Sample of a VM by the status daemon.
#[derive(Clone, Debug)]
pub struct Sample {
    pub name: String,
    pub template: bool,
    /// Start time, if the VM runs.
    pub since: Option<u64>,
    pub cores: u64,
    /// Configured memory of the VM in bytes.
    pub memory: u64,
    pub disk: u64,
    /// Time at which the sample was taken, in seconds since 1970.
    pub taken: u64,
}

impl PveState {
    /// State without hosts and VMs, with root as the only user.
    #[cfg(test)]
    pub(crate) fn new(release: Release) -> Self {
        Self {
            release,
            cluster_name: None,
            hosts: BTreeMap::new(),
            storages: BTreeMap::new(),
            vms: BTreeMap::new(),
            access: Access::default(),
            pools: BTreeMap::new(),
            mappings: Mappings::default(),
            ha: Ha::default(),
            sdn: Sdn::default(),
            datacenter: BTreeMap::new(),
            tasks: Tasks::default(),
            sampled: BTreeMap::new(),
        }
    }

    /// VM on this host, or the error of Proxmox for a missing config file.
    pub(crate) fn vm(&self, node: &str, vmid: u32) -> Result<&Vm, ApiError> {
        self.vms.get(&vmid).filter(|vm| vm.node == node).ok_or_else(|| no_config(node, vmid))
    }

    pub(crate) fn vm_mut(&mut self, node: &str, vmid: u32) -> Result<&mut Vm, ApiError> {
        self.vms.get_mut(&vmid).filter(|vm| vm.node == node).ok_or_else(|| no_config(node, vmid))
    }

    pub(crate) fn storage(&self, id: &str) -> Result<&Storage, ApiError> {
        self.storages
            .get(id)
            .ok_or_else(|| ApiError::failed(format!("storage '{id}' does not exist")))
    }

    /// Storage on this host, or an error if the storage is disabled or not available there.
    pub(crate) fn storage_on(&self, id: &str, node: &str) -> Result<&Storage, ApiError> {
        let storage = self.storage(id)?;
        if storage.disabled {
            return Err(ApiError::failed(format!("storage '{id}' is disabled")));
        }
        if !storage.is_on(node) {
            return Err(ApiError::failed(format!(
                "storage '{id}' is not available on node '{node}'"
            )));
        }
        Ok(storage)
    }

    /// Takes a host offline and stops all its guests.
    pub(crate) fn switch_off(&mut self, name: &str) {
        if let Some(host) = self.hosts.get_mut(name) {
            host.online = false;
            for vm in self.vms.values_mut().filter(|vm| vm.node == name) {
                vm.run = None;
            }
        }
    }

    /// Id of the pool that contains a VM.
    pub(crate) fn pool_of(&self, vmid: u32) -> Option<&str> {
        self.pools.iter().find(|(_, pool)| pool.vms.contains(&vmid)).map(|(id, _)| id.as_str())
    }
}

fn no_config(node: &str, vmid: u32) -> ApiError {
    ApiError::failed(format!(
        "Configuration file 'nodes/{node}/qemu-server/{vmid}.conf' does not exist"
    ))
}
