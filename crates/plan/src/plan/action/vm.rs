//! Actions on VMs.

use std::time::Duration;

use talmox_pve_types::api::qemu::{self, Vm};
use talmox_pve_types::config::VmOptions;
use talmox_pve_types::id::{DiskSlot, PoolId, StorageId, Upid};
use talmox_pve_types::property::Drive;

use crate::ownership::Identity;

/// An owned VM, or one that will be created, with its host and vmid.
///
/// Before each change its config is read and compared with `identity`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwnVm {
    pub vm: Vm,
    pub identity: Identity,
}

/// Creates a VM, in stage `create`.
#[derive(Clone, Debug)]
pub struct CreateVm {
    pub own: OwnVm,
    pub pool: Option<PoolId>,
    /// All options but the tags, which need a right on the VM that exists only after it was created.
    pub options: VmOptions,
    /// The task of an earlier run that is still creating this VM: wait for it first.
    pub running: Option<Upid>,
    pub deadline: Duration,
}

impl CreateVm {
    pub(super) fn storages(&self) -> Vec<StorageId> {
        let drives = self.options.iter().filter(|(key, _)| key.parse::<DiskSlot>().is_ok());
        let mut storages: Vec<StorageId> =
            drives.filter_map(|(_, value)| Drive::parse(value).storage().cloned()).collect();
        storages.sort_unstable();
        storages.dedup();
        storages
    }
}

/// Clones a template, in stage `clone`.
#[derive(Clone, Debug)]
pub struct CloneVm {
    pub own: OwnVm,
    pub template: Vm,
    pub clone: qemu::CloneVm,
    /// The task of an earlier run that is still creating this VM: wait for it first.
    pub running: Option<Upid>,
    pub deadline: Duration,
}

/// Grows a disk.
#[derive(Clone, Debug)]
pub struct ResizeDisk {
    pub own: OwnVm,
    pub slot: DiskSlot,
    pub gib: u32,
    pub deadline: Duration,
}

/// Sets the options that create or clone could not set, and the stage `made`, in one change that is conditional on the digest of
/// the config just read.
#[derive(Clone, Debug)]
pub struct FinishVm {
    pub own: OwnVm,
    /// A drive is sent only if its slot is empty, and a cloud-init drive only if the VM has none: sent twice, it would be created
    /// twice. Tags that the datacenter's policy rejects are omitted.
    pub set: VmOptions,
    /// Options that a clone may have from its template. Only existing ones are deleted.
    pub delete: Vec<String>,
    pub deadline: Duration,
}

#[derive(Clone, Debug)]
pub struct StartVm {
    pub own: OwnVm,
    pub deadline: Duration,
}

/// Detaches the volume with the config from a running node, and destroys it.
#[derive(Clone, Debug)]
pub struct DetachCidata {
    pub own: OwnVm,
    pub slot: DiskSlot,
    /// Whether the VM is protected afterwards. Proxmox removes no drive of a protected VM.
    pub protect: bool,
    pub deadline: Duration,
}

/// Stops a VM without a shutdown: Talos in maintenance mode answers a shutdown with a reboot.
#[derive(Clone, Debug)]
pub struct StopVm {
    pub own: OwnVm,
    pub deadline: Duration,
}

/// Destroys a stopped VM and its volumes, and no other object with its vmid.
#[derive(Clone, Debug)]
pub struct DestroyVm {
    pub own: OwnVm,
    pub deadline: Duration,
}

/// Creates a template that contains Talos without config or identity.
#[derive(Clone, Debug)]
pub struct MakeTemplate {
    pub vm: Vm,
    pub name: String,
    pub pool: Option<PoolId>,
    pub options: VmOptions,
    pub deadline: Duration,
}
