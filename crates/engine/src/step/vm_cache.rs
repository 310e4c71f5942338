//! Cache of the last observed VM configs, and record of the VMs that this run created.
//!
//! The next step on the same VM starts with the config that the previous step read last, which halves the number of requests. A
//! cached config is used only for changes that are conditional on its digest; steps that destroy a VM read the config
//! themselves. A VM that a task of this run just created is an owned VM, and is resized and started without another read.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use talmox_pve::config::VmConfig;
use talmox_pve::id::VmId;

use super::tag_policy::TagPolicy;

#[derive(Clone, Debug, Default)]
pub(crate) struct VmCache {
    cached: Arc<Mutex<CachedVms>>,
    /// The mutex is held while the tag policy is requested, so that a run requests it once.
    pub(super) tag_policy: Arc<tokio::sync::Mutex<TagPolicy>>,
    /// The mutex is held from the reset of a control plane until it answers or its boot has timed out, so that no two
    /// control planes are reset at the same time.
    pub(super) control_plane_reset: Arc<tokio::sync::Mutex<()>>,
}

#[derive(Debug, Default)]
struct CachedVms {
    configs: BTreeMap<VmId, VmConfig>,
    /// VMs that this run created and has not started since.
    fresh: BTreeSet<VmId>,
    /// VMs whose ids Proxmox reserved for a task of this run: no other run created their disks.
    created: BTreeSet<VmId>,
    /// VMs that a step of this run had to create and that already existed.
    found: BTreeSet<VmId>,
}

impl VmCache {
    pub(super) fn keep(&self, vmid: VmId, config: VmConfig) {
        self.cached().configs.insert(vmid, config);
    }

    /// The config that was read last, for one use: after a change it is outdated.
    pub(super) fn take(&self, vmid: VmId) -> Option<VmConfig> {
        self.cached().configs.remove(&vmid)
    }

    pub(super) fn made(&self, vmid: VmId) {
        self.cached().fresh.insert(vmid);
    }

    /// Proxmox accepted the task that creates the VM, and reserved its id.
    pub(super) fn creates(&self, vmid: VmId) {
        self.cached().created.insert(vmid);
    }

    /// Whether this run created the disks of the VM, or is about to create them. Such disks contain no data of another
    /// run.
    pub(super) fn is_created(&self, vmid: VmId) -> bool {
        self.cached().created.contains(&vmid)
    }

    pub(super) fn found(&self, vmid: VmId) {
        self.cached().found.insert(vmid);
    }

    /// Whether another run created a VM that is created by a step of this plan. The VM may have been started before this
    /// run, so it is never reset.
    pub(super) fn was_found(&self, vmid: VmId) -> bool {
        self.cached().found.contains(&vmid)
    }

    /// Whether this run created it and has not started it since.
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
