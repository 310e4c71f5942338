//! VMs that steps work on.

use serde::{Deserialize, Serialize};
use talmox_pve_types::api::qemu::Vm;

use crate::ownership::Identity;

/// An owned VM, or one that will be created, with its host and vmid.
///
/// Before each change its config is read and compared with `identity`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OwnVm {
    pub vm: Vm,
    pub identity: Identity,
}
