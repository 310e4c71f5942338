//! Hint for VMs whose protection in Proxmox prevents their deletion.

use talmox_pve_types::id::{NodeName, VmId};

/// The command that removes the protection of a VM. talmox itself never removes the protection.
pub fn unprotect(host: &NodeName, vmid: VmId) -> String {
    format!("to delete it nevertheless, on {host}: qm set {vmid} --protection 0")
}
