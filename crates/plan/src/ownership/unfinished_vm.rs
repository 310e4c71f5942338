//! VMs that a create, clone or restore left unfinished and locked.

use talmox_pve_types::id::VmId;

/// Instructions for a locked VM without name and notes, which a create, clone or restore left behind. A restore from a backup
/// takes the same lock as a create, so the VM may hold data of a node of this cluster. So the user must check that the VM is
/// empty before the deletion.
pub fn unfinished_vm_hint(vmid: VmId, host: &str) -> String {
    format!(
        "wait until no task works on VM {vmid} (a restore from a backup takes this lock too). Then look at it on {host}: \
         qm config {vmid}. A VM that has a disk, a name or notes may hold data: leave it, and give the node another \
         `vmid:`. Only one that has none of these is empty, and can be removed: qm unlock {vmid} && qm destroy {vmid}"
    )
}
