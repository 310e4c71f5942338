//! Privileges of Proxmox that steps need.

use talmox_pve_types::config::VmOptions;
use talmox_pve_types::id::{PoolId, StorageId, VmId};

use super::own_vm::OwnVm;

/// Privilege that a step needs. The preflight check derives the paths in Proxmox from it, with the observed state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Privilege<'a> {
    /// Create a VM.
    CreateVm { vmid: VmId, pool: Option<&'a PoolId> },
    /// Clone a template to a VM.
    CloneTemplate { template: VmId, vmid: VmId, pool: Option<&'a PoolId> },
    /// Create volumes on a storage.
    AllocateSpace(&'a StorageId),
    /// Use the storages, bridges and mapped devices in these options.
    UseDevices(&'a VmOptions),
    /// This privilege on a VM in the pool that the inventory names.
    OnVm(&'a OwnVm, &'static str),
    /// This privilege on an existing VM, which may be in another pool than the one that the inventory names.
    OnExistingVm(&'a OwnVm, &'static str),
    /// Query the guest agent of a VM.
    QueryAgent(&'a OwnVm),
    /// Write images to a storage.
    WriteImages(&'a StorageId),
    /// Create PCI mappings.
    CreateMappings,
}
