//! VMs that steps work on.

use serde::{Deserialize, Serialize};
use talmox_pve_types::api::qemu::Vm;

use crate::ownership::Identity;

/// An owned VM, or a VM that the run will create, with its host and vmid.
///
/// Before each change, the step reads the config of the VM and compares it with `identity`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OwnVm {
    pub vm: Vm,
    pub identity: Identity,
}
