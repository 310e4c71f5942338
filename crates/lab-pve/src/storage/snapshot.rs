//! Snapshots of volumes.

use super::super::ApiError;
use super::super::pve_state::{PveState, SavedVolume, StorageKind, VolumeId};
use super::plugin_rules::group;
use super::volume::{find, name_of, volume_mut};
use super::volume_name::VolumeName;

/// Creates a snapshot of a volume.
pub(crate) fn snapshot(
    pve_state: &mut PveState,
    node: &str,
    id: &VolumeId,
    snapshot: &str,
) -> Result<(), ApiError> {
    check_format(pve_state, id, "can't snapshot this image format", "can't snapshot 'raw' volume")?;
    let (group, name) = place(pve_state, id)?;
    let kind = pve_state.storage(&id.storage)?.kind;
    let file = &name.file;
    let volume = volume_mut(pve_state, node, id)?;
    if volume.snapshots.contains_key(snapshot) {
        return Err(ApiError::failed(match kind {
            StorageKind::LvmThin => format!(
                "lvcreate snapshot '{group}/snap_{file}_{snapshot}' error:   Logical Volume \
                 \"snap_{file}_{snapshot}\" already exists in volume group \"{group}\""
            ),
            StorageKind::ZfsPool => format!(
                "zfs error: cannot create snapshot '{group}/{file}@{snapshot}': dataset already \
                 exists"
            ),
            // QEMU permits several internal snapshots with the same name.
            _ => return Ok(()),
        }));
    }
    volume.snapshots.insert(snapshot.to_owned(), volume.saved());
    Ok(())
}

/// Deletes a snapshot of a volume.
pub(crate) fn delete_snapshot(
    pve_state: &mut PveState,
    node: &str,
    id: &VolumeId,
    snapshot: &str,
) -> Result<(), ApiError> {
    let text = "can't delete snapshot for this image format";
    check_format(pve_state, id, text, "can't delete snapshot for 'raw' volume")?;
    let absent = absent(pve_state, id, snapshot, "delete")?;
    let volume = volume_mut(pve_state, node, id)?;
    volume.snapshots.remove(snapshot).map(|_| ()).ok_or(absent)
}

/// Rejects a rollback that is not possible. ZFS can roll back only to the most recent snapshot.
pub(crate) fn check_rollback(
    pve_state: &PveState,
    node: &str,
    id: &VolumeId,
    snapshot: &str,
) -> Result<(), ApiError> {
    let kind = pve_state.storage(&id.storage)?.kind;
    if kind == StorageKind::Lvm && name_of(pve_state, id)?.format == "raw" {
        return Err(ApiError::failed("can't rollback snapshot for 'raw' volume"));
    }
    if kind != StorageKind::ZfsPool {
        return Ok(());
    }
    let there = find(pve_state, node, id)?.is_some_and(|it| it.snapshots.contains_key(snapshot));
    if !there {
        return Err(ApiError::failed(format!(
            "can't rollback, snapshot '{snapshot}' does not exist on '{id}'"
        )));
    }
    if has_later(pve_state, node, id, snapshot)? {
        return Err(ApiError::failed(format!(
            "can't rollback, '{snapshot}' is not most recent snapshot on '{id}'"
        )));
    }
    Ok(())
}

/// Whether the volume has snapshots that are newer than this one. The snapshot times come from the VM config.
fn has_later(
    pve_state: &PveState,
    node: &str,
    id: &VolumeId,
    snapshot: &str,
) -> Result<bool, ApiError> {
    let owner = name_of(pve_state, id)?.owner.and_then(|vmid| pve_state.vms.get(&vmid));
    let taken = |name: &str| -> Option<u64> {
        owner?.snapshots.get(name)?.config.get("snaptime")?.parse().ok()
    };
    let Some(volume) = find(pve_state, node, id)? else { return Ok(false) };
    let this = taken(snapshot);
    Ok(volume.snapshots.keys().any(|other| taken(other) > this))
}

/// Rolls a volume back to a snapshot.
pub(crate) fn rollback(
    pve_state: &mut PveState,
    node: &str,
    id: &VolumeId,
    snapshot: &str,
) -> Result<(), ApiError> {
    check_rollback(pve_state, node, id, snapshot)?;
    let text = "can't rollback snapshot this image format";
    check_format(pve_state, id, text, "can't rollback snapshot for 'raw' volume")?;
    let absent = absent(pve_state, id, snapshot, "rollback")?;
    let volume = volume_mut(pve_state, node, id)?;
    let SavedVolume { size, blob, written } =
        volume.snapshots.get(snapshot).cloned().ok_or(absent)?;
    volume.size = size;
    volume.blob = blob;
    volume.written = written;
    Ok(())
}

fn place(pve_state: &PveState, id: &VolumeId) -> Result<(String, VolumeName), ApiError> {
    Ok((group(pve_state.storage(&id.storage)?).to_owned(), name_of(pve_state, id)?))
}

fn check_format(
    pve_state: &PveState,
    id: &VolumeId,
    file: &str,
    lvm: &str,
) -> Result<(), ApiError> {
    let kind = pve_state.storage(&id.storage)?.kind;
    match (kind, name_of(pve_state, id)?.format) {
        (StorageKind::LvmThin | StorageKind::ZfsPool, _) | (_, "qcow2") => Ok(()),
        (StorageKind::Lvm, _) => Err(ApiError::failed(lvm)),
        _ => Err(ApiError::failed(file)),
    }
}

/// Error of the storage tools for a missing snapshot.
fn absent(
    pve_state: &PveState,
    id: &VolumeId,
    snapshot: &str,
    what: &str,
) -> Result<ApiError, ApiError> {
    let (group, name) = place(pve_state, id)?;
    let file = &name.file;
    let thin = format!("{group}/snap_{file}_{snapshot}");
    let missing = format!("Failed to find logical volume \"{thin}\"");
    Ok(ApiError::failed(match pve_state.storage(&id.storage)?.kind {
        StorageKind::LvmThin if what == "delete" => {
            format!("lvremove snapshot '{thin}' error:   {missing}")
        }
        StorageKind::LvmThin => format!("lvm rollback '{thin}' error:   {missing}"),
        StorageKind::ZfsPool => {
            "zfs error: could not find any snapshots to destroy; check snapshot names.".to_owned()
        }
        _ => {
            let flag = if what == "delete" { "-d" } else { "-a" };
            let path = super::volume::path_of(pve_state, id)?;
            format!(
                "command '/usr/bin/qemu-img snapshot {flag} {snapshot} {path}' failed: exit code 1"
            )
        }
    }))
}

#[cfg(test)]
mod tests {
    use super::super::super::pve_state::{Snapshot, Vm};
    use super::super::fixture::{pve_state, volume};
    use super::super::volume::{put, resize};
    use super::*;

    fn disk(pve_state: &mut PveState, text: &str, format: &str) -> VolumeId {
        let id = VolumeId::parse(text).unwrap();
        put(pve_state, "pve1", &id, volume(format, 4 << 20)).unwrap();
        id
    }

    #[test]
    fn rollback_restores_size() {
        let mut pve_state = pve_state();
        for (text, format) in [("lvmthin:vm-1-disk-0", "raw"), ("dir:1/vm-1-disk-0.qcow2", "qcow2")]
        {
            let id = disk(&mut pve_state, text, format);
            snapshot(&mut pve_state, "pve1", &id, "before").unwrap();
            resize(&mut pve_state, "pve1", &id, 8 << 20).unwrap();
            rollback(&mut pve_state, "pve1", &id, "before").unwrap();
            assert_eq!(find(&pve_state, "pve1", &id).unwrap().unwrap().size, 4 << 20);
            delete_snapshot(&mut pve_state, "pve1", &id, "before").unwrap();
            assert!(delete_snapshot(&mut pve_state, "pve1", &id, "before").is_err());
        }
    }

    #[test]
    fn raw_files_and_lvm_volumes_reject_snapshots() {
        let mut pve_state = pve_state();
        let raw = disk(&mut pve_state, "dir:1/vm-1-disk-0.raw", "raw");
        let thick = disk(&mut pve_state, "lvm:vm-1-disk-0", "raw");
        let say = |pve_state: &mut PveState, id| {
            snapshot(pve_state, "pve1", id, "a1").unwrap_err().message
        };
        assert_eq!(say(&mut pve_state, &raw), "can't snapshot this image format");
        assert_eq!(say(&mut pve_state, &thick), "can't snapshot 'raw' volume");
    }

    #[test]
    fn zfs_rolls_back_only_to_most_recent_snapshot() {
        let mut pve_state = pve_state();
        let id = disk(&mut pve_state, "zfspool:vm-1-disk-0", "raw");
        let mut vm = Vm::default();
        for (name, time) in [("one", "100"), ("a-later-one", "200")] {
            snapshot(&mut pve_state, "pve1", &id, name).unwrap();
            let config = [("snaptime".to_owned(), time.to_owned())].into();
            vm.snapshots.insert(name.to_owned(), Snapshot { config });
        }
        pve_state.vms.insert(1, vm);
        assert_eq!(
            rollback(&mut pve_state, "pve1", &id, "one").unwrap_err().message,
            "can't rollback, 'one' is not most recent snapshot on 'zfspool:vm-1-disk-0'"
        );
        rollback(&mut pve_state, "pve1", &id, "a-later-one").unwrap();
        assert!(rollback(&mut pve_state, "pve1", &id, "none").is_err());
    }
}
