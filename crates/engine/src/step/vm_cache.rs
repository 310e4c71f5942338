//! Cache of the last observed VM configs, and record of the VMs that this run created.
//!
//! The next step on the same VM starts with the config that the previous step read last, which halves the number of requests.
//! A cached config is used only for changes that are conditional on its digest. Steps that destroy a VM read the config
//! themselves. A VM that a task of this run just created is an owned VM, and is resized and started without another read.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use talmox_pve::api::qemu::Vm;
use talmox_pve::config::VmConfig;
use talmox_pve::id::{NodeName, VmId};

use super::tag_policy::TagPolicy;

#[derive(Clone, Debug, Default)]
pub(crate) struct VmCache {
    cached: Arc<Mutex<CachedVms>>,
    /// The mutex is held while a step sets tags, so that a run learns only once whether the tag policy allows them.
    pub(super) tag_policy: Arc<tokio::sync::Mutex<TagPolicy>>,
    /// The mutex is held from the reset of a control plane until it answers, but not longer than a boot without a stall takes.
    /// So control planes are reset one after the other.
    pub(super) control_plane_reset: Arc<tokio::sync::Mutex<()>>,
}

#[derive(Debug, Default)]
struct CachedVms {
    configs: BTreeMap<VmId, VmConfig>,
    /// VMs that this run created and has not started since.
    fresh: BTreeSet<VmId>,
    /// VMs whose vmids Proxmox reserved for a task of this run. No other run created their disks.
    created: BTreeSet<VmId>,
    /// VMs that a step of this run had to create and that already existed.
    found: BTreeSet<VmId>,
    /// Hosts of VMs that were migrated since the plan was made.
    hosts: BTreeMap<VmId, NodeName>,
}

impl VmCache {
    pub(super) fn keep(&self, vmid: VmId, config: VmConfig) {
        self.cached().configs.insert(vmid, config);
    }

    /// Removes and returns the config that was read last. It can be used only once, because a change makes it outdated.
    pub(super) fn take(&self, vmid: VmId) -> Option<VmConfig> {
        self.cached().configs.remove(&vmid)
    }

    /// Records the host of a VM. If it differs from the planned host, the VM was migrated.
    pub(super) fn is_on(&self, vm: &Vm) {
        let mut cached = self.cached();
        cached.hosts.insert(vm.vmid, vm.node.clone());
        // The VM no longer counts as fresh, because a fresh VM is started on the planned host without another read.
        cached.fresh.remove(&vm.vmid);
    }

    /// The VM on the host on which a step of this run found it last. If no step found it, the VM on the planned host.
    pub(super) fn last_seen(&self, planned: &Vm) -> Vm {
        match self.cached().hosts.get(&planned.vmid) {
            Some(host) => Vm::new(host, planned.vmid),
            None => planned.clone(),
        }
    }

    pub(super) fn made(&self, vmid: VmId) {
        self.cached().fresh.insert(vmid);
    }

    /// Records that Proxmox accepted the task that creates the VM, and reserved its vmid.
    pub(super) fn creates(&self, vmid: VmId) {
        let mut cached = self.cached();
        cached.created.insert(vmid);
        // This host belongs to an earlier VM with this vmid.
        cached.hosts.remove(&vmid);
    }

    /// Whether this run created the disks of the VM, or is about to create them. Such disks contain no data of another
    /// run.
    pub(super) fn is_created(&self, vmid: VmId) -> bool {
        self.cached().created.contains(&vmid)
    }

    pub(super) fn found(&self, vmid: VmId) {
        self.cached().found.insert(vmid);
    }

    /// Whether the VM existed already when a step of this run had to create it. Another run may have started the VM, so it is
    /// never reset.
    pub(super) fn was_found(&self, vmid: VmId) -> bool {
        self.cached().found.contains(&vmid)
    }

    /// Whether this run created the VM and has not started it since.
    pub(super) fn is_fresh(&self, vmid: VmId) -> bool {
        self.cached().fresh.contains(&vmid)
    }

    /// Whether this run created the VM and has not started it since. Later calls for the same VM return false.
    pub(super) fn take_fresh(&self, vmid: VmId) -> bool {
        self.cached().fresh.remove(&vmid)
    }

    fn cached(&self) -> MutexGuard<'_, CachedVms> {
        self.cached.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
