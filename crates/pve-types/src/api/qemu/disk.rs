use super::Vm;
use crate::id::{Digest, DiskSlot, StorageId, Upid};
use crate::request::Request;

/// Grows a disk to `gib`. Proxmox accepts the current size and rejects a smaller size. The request contains the final
/// size, because growing by an amount could not be retried safely. No data is copied, so no storage permit is needed.
pub fn resize(vm: &Vm, slot: &DiskSlot, gib: u32, digest: Option<&Digest>) -> Request<Upid> {
    vm.put(&[&"resize"])
        .with("disk", slot)
        .with("size", format!("{gib}G"))
        .with_some("digest", digest)
}

/// Detaches disks. With `force`, their volumes are destroyed.
pub fn unlink(vm: &Vm, slots: &[DiskSlot], force: bool) -> Request<()> {
    let slots: Vec<&str> = slots.iter().map(DiskSlot::as_str).collect();
    vm.put(&[&"unlink"]).with("idlist", slots.join(",")).with_flag("force", force)
}

/// Move of a disk to another storage.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MoveDisk {
    pub slot: DiskSlot,
    pub from: StorageId,
    pub to: StorageId,
    /// Whether the old volume is deleted. Otherwise it stays as `unusedN`.
    pub delete: bool,
    pub digest: Option<Digest>,
}

pub fn move_disk(vm: &Vm, disk: &MoveDisk) -> Request<Upid> {
    vm.post(&[&"move_disk"])
        .using_storages([&disk.from, &disk.to])
        .with("disk", &disk.slot)
        .with("storage", &disk.to)
        .with_flag("delete", disk.delete)
        .with_some("digest", disk.digest.as_ref())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::id::VmId;

    #[test]
    fn resize_move_and_unlink_build_the_right_requests() {
        let vm = Vm::new(&"pve1".parse().unwrap(), VmId::new(300).unwrap());
        let slot: DiskSlot = "scsi0".parse().unwrap();
        let (from, to): (StorageId, StorageId) =
            ("local-lvm".parse().unwrap(), "tank".parse().unwrap());
        let grown = resize(&vm, &slot, 40, None);
        assert!(grown.scope().storages.is_empty());
        assert_eq!(grown.operation(), "PUT /nodes/pve1/qemu/300/resize");
        assert_eq!(grown.body().unwrap(), "disk=scsi0&size=40G");
        let gone = unlink(&vm, &[slot.clone(), "scsi1".parse().unwrap()], true);
        assert_eq!(gone.body().unwrap(), "idlist=scsi0%2Cscsi1&force=1");
        let moved = move_disk(&vm, &MoveDisk { slot, from, to, delete: true, digest: None });
        assert_eq!(moved.path(), "/nodes/pve1/qemu/300/move_disk");
        assert_eq!(moved.body().unwrap(), "disk=scsi0&storage=tank&delete=1");
        assert_eq!(moved.scope().storages.len(), 2);
    }
}
