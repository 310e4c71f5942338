//! Existing volumes: lookup, size, resize and removal.

use super::super::ApiError;
use super::super::pve_state::{ContentType, PveState, Storage, StorageKind, Volume, VolumeId};
use super::allocation::room;
use super::base_volume::is_base_in_use;
use super::plugin_rules::{Feature, LARGEST, SECTOR, group, has_feature, path, reserved, rounded};
use super::volume_name::{VolumeName, full_name};

/// Size and format of a volume, as `qemu-img info` or the storage tools report them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SizeInfo {
    /// Virtual size of the volume in bytes.
    pub(crate) size: u64,
    pub(crate) format: String,
    pub(crate) used: u64,
    pub(crate) parent: Option<String>,
}

/// Parsed name of a volume.
pub(crate) fn name_of(pve_state: &PveState, id: &VolumeId) -> Result<VolumeName, ApiError> {
    VolumeName::parse(pve_state.storage(&id.storage)?.kind, &id.name)
}

/// Path of a volume on the host. The volume does not need to exist.
pub(crate) fn path_of(pve_state: &PveState, id: &VolumeId) -> Result<String, ApiError> {
    path(pve_state.storage(&id.storage)?, &name_of(pve_state, id)?)
}

/// Whether a volume, or a snapshot of the volume, supports a feature.
pub(crate) fn can(
    pve_state: &PveState,
    id: &VolumeId,
    feature: Feature,
    snapshot: Option<&str>,
) -> Result<bool, ApiError> {
    let name = name_of(pve_state, id)?;
    Ok(has_feature(pve_state.release, pve_state.storage(&id.storage)?, &name, feature, snapshot))
}

/// Volume with this id; `None` if the volume does not exist.
pub(crate) fn find<'a>(
    pve_state: &'a PveState,
    node: &str,
    id: &VolumeId,
) -> Result<Option<&'a Volume>, ApiError> {
    let storage = pve_state.storage(&id.storage)?;
    let name = VolumeName::parse(storage.kind, &id.name)?;
    Ok(storage.volume(node, &name.key(storage.kind)))
}

/// Stores a volume under its id, and records the base volume that the id contains.
pub(crate) fn put(
    pve_state: &mut PveState,
    node: &str,
    id: &VolumeId,
    mut volume: Volume,
) -> Result<(), ApiError> {
    let name = name_of(pve_state, id)?;
    let storage = storage_mut(pve_state, &id.storage)?;
    volume.base = name.base_key(storage.kind).or(volume.base);
    let key = name.key(storage.kind);
    storage.put(node, key, volume);
    Ok(())
}

pub(super) fn storage_mut<'a>(
    pve_state: &'a mut PveState,
    id: &str,
) -> Result<&'a mut Storage, ApiError> {
    let missing = || ApiError::failed(format!("storage '{id}' does not exist"));
    pve_state.storages.get_mut(id).ok_or_else(missing)
}

/// Volume to change, or the error of the storage tools for a missing volume.
pub(super) fn volume_mut<'a>(
    pve_state: &'a mut PveState,
    node: &str,
    id: &VolumeId,
) -> Result<&'a mut Volume, ApiError> {
    let name = name_of(pve_state, id)?;
    let storage = storage_mut(pve_state, &id.storage)?;
    let missing = missing(storage, id, &name);
    storage.volume_mut(node, &name.key(storage.kind)).ok_or(missing)
}

/// Activates a volume, or returns the error of the storage tools for a missing volume.
pub(crate) fn activate(pve_state: &PveState, node: &str, id: &VolumeId) -> Result<(), ApiError> {
    let storage = pve_state.storage_on(&id.storage, node)?;
    match find(pve_state, node, id)? {
        Some(_) => Ok(()),
        None => Err(missing(storage, id, &name_of(pve_state, id)?)),
    }
}

/// Error of the storage tools for a missing volume.
fn missing(storage: &Storage, id: &VolumeId, name: &VolumeName) -> ApiError {
    let file = &name.file;
    let group = group(storage);
    ApiError::failed(match storage.kind {
        StorageKind::LvmThin => format!("no such logical volume {group}/{file}"),
        StorageKind::Lvm => format!(
            "can't activate LV '/dev/{group}/{file}':   \
             Failed to find logical volume \"{group}/{file}\""
        ),
        StorageKind::ZfsPool => {
            format!("timeout: no zvol device link for '{}' found after 300 sec.", id.name)
        }
        _ => format!("volume '{id}' does not exist"),
    })
}

/// Size and format of a volume; `None` for a missing file, because its error depends on the caller.
pub(crate) fn size_info(
    pve_state: &PveState,
    node: &str,
    id: &VolumeId,
) -> Result<Option<SizeInfo>, ApiError> {
    let storage = pve_state.storage(&id.storage)?;
    let name = VolumeName::parse(storage.kind, &id.name)?;
    let Some(volume) = storage.volume(node, &name.key(storage.kind)) else {
        let (group, file) = (group(storage), &name.file);
        return match storage.kind {
            StorageKind::Lvm | StorageKind::LvmThin => Err(ApiError::failed(format!(
                "can't get size of '/dev/{group}/{file}':   \
                 Failed to find logical volume \"{group}/{file}\""
            ))),
            StorageKind::ZfsPool => Err(ApiError::failed(format!(
                "zfs error: cannot open '{group}/{file}': dataset does not exist"
            ))),
            _ => Ok(None),
        };
    };
    let format = name.format.to_owned();
    if !storage.kind.has_files() {
        let used = if storage.kind == StorageKind::ZfsPool { volume.used } else { 0 };
        let parent = name.base_key(storage.kind);
        return Ok(Some(SizeInfo { size: volume.size, format, used, parent }));
    }
    let size = file_size(&path(storage, &name)?, &name, volume)?;
    let parent = volume.base.as_ref().map(|base| format!("../{base}"));
    Ok(Some(SizeInfo { size, format, used: volume.used, parent }))
}

/// Virtual size that QEMU reports for a file. The name of the file determines the format.
pub(super) fn file_size(path: &str, name: &VolumeName, volume: &Volume) -> Result<u64, ApiError> {
    let is_disk = name.content == ContentType::Images;
    match name.format {
        "qcow2" | "vmdk" if volume.format != name.format => Err(not_in_format(path, name.format)),
        "qcow2" | "vmdk" | "subvol" => Ok(volume.size),
        _ if is_disk => Ok(volume.size),
        // QEMU reads an uploaded file as a raw image, so the size of the image is the length of the file.
        _ => Ok(volume.used.div_ceil(SECTOR) * SECTOR),
    }
}

pub(super) fn not_in_format(path: &str, format: &str) -> ApiError {
    let text = format!("qemu-img: Could not open '{path}': Image is not in {format} format");
    ApiError::failed(text)
}

/// All disks with this vmid, on all storages for disk images.
pub(crate) fn volumes_of(pve_state: &PveState, node: &str, vmid: u32) -> Vec<VolumeId> {
    let mut found = vec![];
    for (id, storage) in &pve_state.storages {
        let for_disks = storage.content.contains(&ContentType::Images)
            || storage.content.contains(&ContentType::Rootdir);
        if !for_disks || storage.disabled || !storage.is_on(node) {
            continue;
        }
        for (key, volume) in storage.volumes_on(node) {
            let owned = VolumeName::parse(storage.kind, key)
                .is_ok_and(|name| name.content == ContentType::Images && name.owner == Some(vmid));
            if owned {
                found.push(VolumeId::new(id, full_name(storage.kind, key, volume)));
            }
        }
    }
    found
}

/// Grows a volume to at least `bytes`.
pub(crate) fn resize(
    pve_state: &mut PveState,
    node: &str,
    id: &VolumeId,
    bytes: u64,
) -> Result<(), ApiError> {
    let name = name_of(pve_state, id)?;
    let storage = pve_state.storage(&id.storage)?;
    let kind = storage.kind;
    if kind.has_files() && !matches!(name.format, "raw" | "qcow2") {
        return Err(ApiError::failed("can't resize this image format"));
    }
    if bytes > LARGEST {
        return Err(ApiError::failed(format!("can't resize '{id}' to {bytes} bytes: too large")));
    }
    let size = rounded(kind, name.format, bytes.div_ceil(1024) * 1024);
    let free = room(storage, node);
    let before = find(pve_state, node, id)?.map_or(0, |volume| volume.used);
    let after = reserved(storage, name.format, size).max(before);
    if after - before > free {
        let (extents, left) = ((after - before) >> 22, free >> 22);
        let group = group(storage);
        return Err(ApiError::failed(match kind {
            StorageKind::ZfsPool => format!(
                "zfs error: cannot set property for '{group}/{}': size is greater than available \
                 space",
                name.file
            ),
            _ => format!(
                "error resizing volume '{}':   Insufficient free space: {extents} extents needed, \
                 but only {left} available",
                path(storage, &name)?
            ),
        }));
    }
    let volume = volume_mut(pve_state, node, id)?;
    volume.size = size;
    volume.used = after;
    Ok(())
}

/// Removes a volume and its snapshots. A missing volume is not an error.
pub(crate) fn free(pve_state: &mut PveState, node: &str, id: &VolumeId) -> Result<(), ApiError> {
    pve_state.storage_on(&id.storage, node)?;
    let name = name_of(pve_state, id)?;
    if is_base_in_use(pve_state, node, id)? {
        let text = format!("base volume '{}' is still in use by linked clones", id.name);
        return Err(ApiError::failed(text));
    }
    let storage = storage_mut(pve_state, &id.storage)?;
    let key = name.key(storage.kind);
    let Some(volume) = storage.volume(node, &key) else {
        if storage.kind == StorageKind::Lvm {
            let volume = format!("{}/{}", group(storage), name.file);
            let text =
                format!("lvremove '{volume}' error:   Failed to find logical volume \"{volume}\"");
            return Err(ApiError::failed(text));
        }
        return Ok(());
    };
    if volume.protected {
        let text = format!("cannot remove protected volume '{}' on '{}'", id.name, id.storage);
        return Err(ApiError::failed(text));
    }
    storage.take(node, &key);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::fixture::{pve_state, volume};
    use super::*;

    fn id(text: &str) -> VolumeId {
        VolumeId::parse(text).unwrap()
    }

    #[test]
    fn missing_volume_errors() {
        let pve_state = pve_state();
        let say = |text: &str| activate(&pve_state, "pve1", &id(text)).unwrap_err().message;
        assert_eq!(say("lvmthin:vm-101-disk-7"), "no such logical volume pve/vm-101-disk-7");
        assert_eq!(say("dir:iso/x.iso"), "volume 'dir:iso/x.iso' does not exist");
        assert_eq!(size_info(&pve_state, "pve1", &id("dir:iso/x.iso")), Ok(None));
        let error = size_info(&pve_state, "pve1", &id("zfspool:vm-1-disk-0")).unwrap_err();
        assert_eq!(
            error.message,
            "zfs error: cannot open 'tank/vm-1-disk-0': dataset does not exist"
        );
    }

    #[test]
    fn format_in_file_name_determines_size() {
        let mut pve_state = pve_state();
        let file = |format, size, used| Volume { used, ..volume(format, size) };
        put(&mut pve_state, "pve1", &id("dir:import/a.raw"), file("qcow2", 1 << 30, 600)).unwrap();
        put(&mut pve_state, "pve1", &id("dir:import/b.qcow2"), file("qcow2", 1 << 30, 600))
            .unwrap();
        put(&mut pve_state, "pve1", &id("dir:import/c.qcow2"), file("raw", 512, 9)).unwrap();
        let size = |text| size_info(&pve_state, "pve1", &id(text)).map(|info| info.unwrap().size);
        assert_eq!(size("dir:import/a.raw"), Ok(1024));
        assert_eq!(size("dir:import/b.qcow2"), Ok(1 << 30));
        assert_eq!(
            size("dir:import/c.qcow2").unwrap_err().message,
            "qemu-img: Could not open '/var/lib/vz/import/c.qcow2': Image is not in qcow2 format"
        );
    }

    #[test]
    fn resize_needs_space_on_thick_storages() {
        let mut pve_state = pve_state();
        for text in ["lvm:vm-101-disk-0", "lvmthin:vm-101-disk-0"] {
            put(&mut pve_state, "pve1", &id(text), volume("raw", 4 << 20)).unwrap();
        }
        resize(&mut pve_state, "pve1", &id("lvmthin:vm-101-disk-0"), 1 << 40).unwrap();
        resize(&mut pve_state, "pve1", &id("lvm:vm-101-disk-0"), (5 << 20) + 1).unwrap();
        let thick = find(&pve_state, "pve1", &id("lvm:vm-101-disk-0")).unwrap().unwrap();
        assert_eq!((thick.size, thick.used), (8 << 20, 8 << 20));
        let error = resize(&mut pve_state, "pve1", &id("lvm:vm-101-disk-0"), 1 << 40).unwrap_err();
        assert!(error.message.contains("Insufficient free space"), "{}", error.message);
    }

    #[test]
    fn volumes_of_a_vm_are_found_by_vmid() {
        let mut pve_state = pve_state();
        for text in ["lvmthin:vm-101-disk-0", "zfspool:base-101-disk-0", "lvmthin:vm-102-disk-0"] {
            put(&mut pve_state, "pve1", &id(text), volume("raw", 4 << 20)).unwrap();
        }
        let clone = "dir:9/base-9-disk-0.raw/101/vm-101-disk-0.qcow2";
        put(&mut pve_state, "pve1", &id(clone), volume("qcow2", 4 << 20)).unwrap();
        let found: Vec<_> =
            volumes_of(&pve_state, "pve1", 101).iter().map(ToString::to_string).collect();
        assert_eq!(found, [clone, "lvmthin:vm-101-disk-0", "zfspool:base-101-disk-0"]);
        assert_eq!(volumes_of(&pve_state, "pve2", 101), []);
    }

    #[test]
    fn removal_of_existing_and_missing_volumes() {
        let mut pve_state = pve_state();
        let disk = id("lvmthin:vm-101-disk-0");
        put(&mut pve_state, "pve1", &disk, volume("raw", 4 << 20)).unwrap();
        free(&mut pve_state, "pve1", &disk).unwrap();
        free(&mut pve_state, "pve1", &disk).unwrap();
        assert_eq!(find(&pve_state, "pve1", &disk), Ok(None));
        let thick = free(&mut pve_state, "pve1", &id("lvm:vm-101-disk-0")).unwrap_err();
        assert!(thick.message.starts_with("lvremove 'vgt/vm-101-disk-0' error:"));
    }
}
