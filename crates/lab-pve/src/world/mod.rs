//! Everything the simulated cluster consists of, as plain data.
//!
//! The world has no behaviour of its own beyond looking things up: the API decides, tasks change it.
//! Whoever holds it never waits, so that any number of calls and tasks can share it.

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

use super::{Refusal, Release};

#[derive(Debug, Serialize, Deserialize)]
pub struct World {
    pub release: Release,
    /// A single host has no cluster name.
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
    /// `datacenter.cfg`: option and value.
    pub datacenter: BTreeMap<String, String>,
    pub tasks: Tasks,
    /// What the status daemon last saw of each VM; `/cluster/resources` tells of this, not of now.
    #[serde(skip)]
    pub sampled: BTreeMap<u32, Sample>,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Pool {
    pub comment: Option<String>,
    pub vms: BTreeSet<u32>,
    pub storages: BTreeSet<String>,
}

/// Resource mappings: id to its entries, each a property string that names a host.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Mappings {
    pub pci: BTreeMap<String, Mapping>,
    pub usb: BTreeMap<String, Mapping>,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Mapping {
    pub entries: Vec<String>,
    /// `description`, `mdev`, `live-migration-capable`.
    pub options: BTreeMap<String, String>,
}

/// High availability: sections of name to options, as its configuration files have them.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Ha {
    /// By `vm:101`.
    pub resources: BTreeMap<String, BTreeMap<String, String>>,
    /// 8.4 only; on 9 they have become rules.
    pub groups: BTreeMap<String, BTreeMap<String, String>>,
    pub rules: BTreeMap<String, BTreeMap<String, String>>,
    /// What the manager makes of the resources, by `vm:101`.
    #[serde(skip)]
    pub services: BTreeMap<String, Service>,
    /// Since when each host is missed.
    #[serde(skip)]
    pub missed: BTreeMap<String, u64>,
}

/// A resource in the hands of the HA manager.
#[derive(Clone, Debug)]
pub struct Service {
    pub node: String,
    pub state: ServiceState,
    /// How often in a row its start failed.
    pub failures: u32,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ServiceState {
    Started,
    Stopped,
    /// On its way to a host; without a break, or stopped and started again.
    Migrate {
        target: String,
        online: bool,
    },
    /// Its host is gone, and nobody knows yet whether it still runs there.
    Fence,
    Error,
}

/// What the status daemon tells of a VM.
#[derive(Clone, Debug)]
pub struct Sample {
    pub name: String,
    pub template: bool,
    /// Since when it runs, if it does.
    pub since: Option<u64>,
    pub cores: u64,
    /// In bytes.
    pub memory: u64,
    pub disk: u64,
    /// When this was seen.
    pub taken: u64,
}

impl World {
    /// No hosts, no VMs, nobody but root.
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

    /// The VM's configuration on this host, or what Proxmox says when it is not there.
    pub(crate) fn vm(&self, node: &str, vmid: u32) -> Result<&Vm, Refusal> {
        self.vms.get(&vmid).filter(|vm| vm.node == node).ok_or_else(|| no_config(node, vmid))
    }

    pub(crate) fn vm_mut(&mut self, node: &str, vmid: u32) -> Result<&mut Vm, Refusal> {
        self.vms.get_mut(&vmid).filter(|vm| vm.node == node).ok_or_else(|| no_config(node, vmid))
    }

    pub(crate) fn storage(&self, id: &str) -> Result<&Storage, Refusal> {
        self.storages
            .get(id)
            .ok_or_else(|| Refusal::failed(format!("storage '{id}' does not exist")))
    }

    /// The storage, if it can be used on this host.
    pub(crate) fn storage_on(&self, id: &str, node: &str) -> Result<&Storage, Refusal> {
        let storage = self.storage(id)?;
        if storage.disabled {
            return Err(Refusal::failed(format!("storage '{id}' is disabled")));
        }
        if !storage.is_on(node) {
            return Err(Refusal::failed(format!(
                "storage '{id}' is not available on node '{node}'"
            )));
        }
        Ok(storage)
    }

    /// A host loses its power, and every guest on it.
    pub(crate) fn switch_off(&mut self, name: &str) {
        if let Some(host) = self.hosts.get_mut(name) {
            host.online = false;
            for vm in self.vms.values_mut().filter(|vm| vm.node == name) {
                vm.run = None;
            }
        }
    }

    /// The pool that a VM is in.
    pub(crate) fn pool_of(&self, vmid: u32) -> Option<&str> {
        self.pools.iter().find(|(_, pool)| pool.vms.contains(&vmid)).map(|(id, _)| id.as_str())
    }
}

fn no_config(node: &str, vmid: u32) -> Refusal {
    Refusal::failed(format!(
        "Configuration file 'nodes/{node}/qemu-server/{vmid}.conf' does not exist"
    ))
}
