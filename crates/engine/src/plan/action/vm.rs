//! What is done to VMs.

use std::time::Duration;

use talmox_pve::api::qemu::{self, Vm};
use talmox_pve::config::VmOptions;
use talmox_pve::id::{DiskSlot, PoolId, StorageId, Upid};
use talmox_pve::property::Drive;

use crate::ownership::Identity;

/// A VM that is ours, or is going to be, at its place.
///
/// Before anything is done to it, its config is read and judged by `identity`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwnVm {
    pub vm: Vm,
    pub identity: Identity,
}

/// Makes a VM, in stage `create`.
#[derive(Clone, Debug)]
pub struct CreateVm {
    pub own: OwnVm,
    pub pool: Option<PoolId>,
    /// All of it but the tags, which need a right that a VM in the making has not.
    pub options: VmOptions,
    /// A task of ours that is making this VM since an earlier run: wait for it first.
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
    /// A task of ours that is making this VM since an earlier run: wait for it first.
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

/// Sets what create or clone could not, and with it the stage `made`, in one change that is
/// conditional on the config just read.
#[derive(Clone, Debug)]
pub struct FinishVm {
    pub own: OwnVm,
    /// Drives in it are sent only if nothing is attached at their place, and a cloud-init drive
    /// only if there is none at all: sent twice they would be made twice. Tags that the datacenter's policy rejects are left out.
    pub set: VmOptions,
    /// What a template may have brought along. Only what is there is deleted.
    pub delete: Vec<String>,
    pub deadline: Duration,
}

#[derive(Clone, Debug)]
pub struct StartVm {
    pub own: OwnVm,
    pub deadline: Duration,
}

/// Takes the volume with the config away from a node that runs, and destroys it.
#[derive(Clone, Debug)]
pub struct DetachCidata {
    pub own: OwnVm,
    pub slot: DiskSlot,
    /// Whether the VM is protected from then on. Proxmox removes no drive of a VM that is.
    pub protect: bool,
    pub deadline: Duration,
}

/// Pulls the plug: Talos in maintenance mode answers a shutdown with a reboot.
#[derive(Clone, Debug)]
pub struct StopVm {
    pub own: OwnVm,
    pub deadline: Duration,
}

/// Destroys a stopped VM and its own volumes, and nothing else that carries its number.
#[derive(Clone, Debug)]
pub struct DestroyVm {
    pub own: OwnVm,
    pub deadline: Duration,
}

/// Makes a template of Talos alone, without config or identity.
#[derive(Clone, Debug)]
pub struct MakeTemplate {
    pub vm: Vm,
    pub name: String,
    pub pool: Option<PoolId>,
    pub options: VmOptions,
    pub deadline: Duration,
}
