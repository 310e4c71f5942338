//! What the steps of a run know of VMs from just before.
//!
//! The last look of one step is the first look of the next on the same VM, which halves the
//! requests. It is only ever used for changes that are conditional on it by its digest; whoever
//! destroys something looks for himself. What a task of this run just made is ours, and needs no look
//! before it grows or starts.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use talmox_pve::config::VmConfig;
use talmox_pve::id::VmId;

use super::tag_policy::TagPolicy;

#[derive(Clone, Debug, Default)]
pub(crate) struct Seen {
    sights: Arc<Mutex<Sights>>,
    /// Held while the policy is requested, so that a run requests it once.
    pub(super) tag_policy: Arc<tokio::sync::Mutex<TagPolicy>>,
    /// Held from the reset of a control plane until it answers or its boot has timed out, so that no two are reset at a time.
    pub(super) control_plane_reset: Arc<tokio::sync::Mutex<()>>,
}

#[derive(Debug, Default)]
struct Sights {
    configs: BTreeMap<VmId, VmConfig>,
    /// Made in this run, and not started since.
    fresh: BTreeSet<VmId>,
    /// Whose numbers Proxmox reserved for a task of this run: no other run created their disks.
    created: BTreeSet<VmId>,
    /// VMs that a step of this run was to create and found in existence.
    found: BTreeSet<VmId>,
}

impl Seen {
    pub(super) fn keep(&self, vmid: VmId, config: VmConfig) {
        self.sights().configs.insert(vmid, config);
    }

    /// What was seen last, for one use: after a change it is no longer true.
    pub(super) fn take(&self, vmid: VmId) -> Option<VmConfig> {
        self.sights().configs.remove(&vmid)
    }

    pub(super) fn made(&self, vmid: VmId) {
        self.sights().fresh.insert(vmid);
    }

    /// Proxmox accepted the task that makes it, and with that reserved its number.
    pub(super) fn creates(&self, vmid: VmId) {
        self.sights().created.insert(vmid);
    }

    /// Whether this run made its disks, or is about to: they hold nothing that this run did not put there.
    pub(super) fn is_created(&self, vmid: VmId) -> bool {
        self.sights().created.contains(&vmid)
    }

    pub(super) fn found(&self, vmid: VmId) {
        self.sights().found.insert(vmid);
    }

    /// Whether another run created a VM that this run was to create: it may have been started before this run, and is never
    /// reset.
    pub(super) fn was_found(&self, vmid: VmId) -> bool {
        self.sights().found.contains(&vmid)
    }

    /// Whether it was made in this run and not started since.
    pub(super) fn is_fresh(&self, vmid: VmId) -> bool {
        self.sights().fresh.contains(&vmid)
    }

    /// Whether it was made in this run and not started since, for one use.
    pub(super) fn take_fresh(&self, vmid: VmId) -> bool {
        self.sights().fresh.remove(&vmid)
    }

    fn sights(&self) -> MutexGuard<'_, Sights> {
        self.sights.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
