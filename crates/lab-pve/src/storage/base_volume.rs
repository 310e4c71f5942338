//! Base volumes of templates, and their linked clones.

use super::super::ApiError;
use super::super::pve_state::{ContentType, PveState, SavedVolume, StorageKind, Volume, VolumeId};
use super::allocation::{Allocation, first_free};
use super::plugin_rules::{group, path};
use super::volume::{activate, find, name_of, storage_mut};
use super::volume_name::VolumeName;

/// Converts a volume of a VM to a base volume of a template. The prefix `vm-` of its name becomes `base-`.
pub(crate) fn create_base(
    pve_state: &mut PveState,
    node: &str,
    id: &VolumeId,
) -> Result<VolumeId, ApiError> {
    pve_state.storage_on(&id.storage, node)?;
    let storage = pve_state.storage(&id.storage)?;
    let kind = storage.kind;
    let name = name_of(pve_state, id)?;
    if kind == StorageKind::Lvm {
        return Err(ApiError::failed("can't create base images in lvm storage"));
    }
    if name.content != ContentType::Images {
        let text = format!("create_base on wrong vtype '{}'", name.content.name());
        return Err(ApiError::failed(text));
    }
    if name.is_base {
        return Err(ApiError::failed("create_base not possible with base image"));
    }
    let Some(volume) = find(pve_state, node, id)? else {
        return Err(not_found(pve_state, id, &name)?);
    };
    if kind == StorageKind::LvmThin
        && let Some(snapshot) = volume.snapshots.keys().next()
    {
        let text = format!(
            "unable to create base volume - found snaphost 'snap_{}_{snapshot}'",
            name.file
        );
        return Err(ApiError::failed(text));
    }
    let file = match name.file.strip_prefix("vm-") {
        Some(rest) => format!("base-{rest}"),
        None => name.file.replacen("subvol-", "basevol-", 1),
    };
    let renamed = VolumeName { file, is_base: true, ..name.clone() };
    let (old, new) = (name.key(kind), renamed.key(kind));
    if storage.volume(node, &new).is_some() {
        return Err(ApiError::failed(if kind.has_files() {
            format!("file '{}' already exists", path(storage, &renamed)?)
        } else {
            format!("target volume '{new}' already exists")
        }));
    }
    let full = match name.base_key(kind) {
        Some(base) => format!("{base}/{new}"),
        None => new.clone(),
    };
    let storage = storage_mut(pve_state, &id.storage)?;
    if let Some(volume) = storage.take(node, &old) {
        storage.put(node, new, volume);
    }
    Ok(VolumeId::new(&id.storage, full))
}

fn not_found(pve_state: &PveState, id: &VolumeId, name: &VolumeName) -> Result<ApiError, ApiError> {
    let storage = pve_state.storage(&id.storage)?;
    let (group, file) = (group(storage), &name.file);
    let renamed = file.replacen("vm-", "base-", 1);
    Ok(ApiError::failed(match storage.kind {
        StorageKind::LvmThin => format!(
            "lvrename '{group}/{file}' => '{group}/{renamed}' error:   Existing logical volume \
             \"{file}\" not found in volume group \"{group}\""
        ),
        StorageKind::ZfsPool => {
            format!("zfs error: cannot open '{group}/{file}': dataset does not exist")
        }
        _ => format!("file_size_info on '{}' failed", id.name),
    }))
}

/// Creates a linked clone for `vmid`, and returns the id of the new volume. The source is a base volume, or a snapshot if the
/// storage supports that.
pub(crate) fn clone_image(
    pve_state: &mut PveState,
    node: &str,
    id: &VolumeId,
    snapshot: Option<&str>,
    vmid: u32,
    now: u64,
) -> Result<VolumeId, ApiError> {
    let storage = pve_state.storage_on(&id.storage, node)?;
    let kind = storage.kind;
    let name = name_of(pve_state, id)?;
    let rejected = match (kind, snapshot) {
        (StorageKind::Lvm, _) => Some("can't clone images in lvm storage"),
        (StorageKind::LvmThin, Some(_)) => None,
        (kind, Some(_)) if kind.has_files() => {
            Some("this storage type does not support clone_image on snapshot")
        }
        _ if kind.has_files() && name.format == "subvol" => {
            Some("this storage type does not support clone_image on subvolumes")
        }
        _ if !name.is_base => Some("clone_image only works on base images"),
        _ => None,
    };
    if let Some(text) = rejected {
        return Err(ApiError::failed(text));
    }
    activate(pve_state, node, id)?;
    let Some(origin) = find(pve_state, node, id)?.cloned() else {
        return Err(not_found(pve_state, id, &name)?);
    };
    let SavedVolume { size, blob, written } = match snapshot {
        None => origin.saved(),
        Some(snapshot) => origin.snapshots.get(snapshot).cloned().ok_or_else(|| {
            let volume = format!("{}/snap_{}_{snapshot}", group(storage), name.file);
            ApiError::failed(format!(
                "clone image '{volume}' error:   Failed to find logical volume \"{volume}\""
            ))
        })?,
    };
    let format = if kind.has_files() { "qcow2" } else { name.format };
    let new = Allocation {
        node,
        storage: &id.storage,
        vmid,
        format: Some(format),
        name: None,
        kib: 0,
        now,
    };
    let prefix = if format == "subvol" { "subvol" } else { "vm" };
    let file = first_free(storage, &new, format, prefix)?;
    let key = if kind.has_files() { format!("{vmid}/{file}") } else { file };
    let base = name.key(kind);
    let full = if kind == StorageKind::LvmThin { key.clone() } else { format!("{base}/{key}") };
    let volume = Volume {
        format: format.to_owned(),
        size,
        used: 0,
        backing: None,
        blob,
        written,
        base: Some(base),
        created: now,
        snapshots: std::collections::BTreeMap::new(),
        notes: None,
        protected: false,
        executable: false,
    };
    storage_mut(pve_state, &id.storage)?.put(node, key, volume);
    Ok(VolumeId::new(&id.storage, full))
}

/// Whether linked clones of this volume exist. On LVM-thin the result is always false, because LVM-thin does not record the
/// base of a clone.
pub(crate) fn is_base_in_use(
    pve_state: &PveState,
    node: &str,
    id: &VolumeId,
) -> Result<bool, ApiError> {
    let storage = pve_state.storage(&id.storage)?;
    let name = name_of(pve_state, id)?;
    if !name.is_base || storage.kind == StorageKind::LvmThin {
        return Ok(false);
    }
    let key = name.key(storage.kind);
    Ok(storage.volumes_on(node).any(|(_, volume)| volume.base.as_ref() == Some(&key)))
}

#[cfg(test)]
mod tests {
    use super::super::fixture::{pve_state, volume};
    use super::super::volume::{free, put};
    use super::*;

    fn id(text: &str) -> VolumeId {
        VolumeId::parse(text).unwrap()
    }

    fn base_of(pve_state: &mut PveState, text: &str) -> VolumeId {
        put(pve_state, "pve1", &id(text), volume("raw", 4 << 20)).unwrap();
        create_base(pve_state, "pve1", &id(text)).unwrap()
    }

    #[test]
    fn base_file_with_linked_clone_cannot_be_deleted() {
        let mut pve_state = pve_state();
        let base = base_of(&mut pve_state, "dir:9000/vm-9000-disk-0.raw");
        assert_eq!(base.to_string(), "dir:9000/base-9000-disk-0.raw");
        let clone = clone_image(&mut pve_state, "pve1", &base, None, 101, 1).unwrap();
        assert_eq!(clone.to_string(), "dir:9000/base-9000-disk-0.raw/101/vm-101-disk-0.qcow2");
        assert_eq!(
            free(&mut pve_state, "pve1", &base).unwrap_err().message,
            "base volume '9000/base-9000-disk-0.raw' is still in use by linked clones"
        );
        assert_eq!(
            create_base(&mut pve_state, "pve1", &clone).unwrap().to_string(),
            "dir:9000/base-9000-disk-0.raw/101/base-101-disk-0.qcow2"
        );
    }

    #[test]
    fn base_on_lvm_thin_can_be_deleted() {
        let mut pve_state = pve_state();
        let base = base_of(&mut pve_state, "lvmthin:vm-9000-disk-0");
        let clone = clone_image(&mut pve_state, "pve1", &base, None, 101, 1).unwrap();
        assert_eq!(clone.to_string(), "lvmthin:vm-101-disk-0");
        assert_eq!(find(&pve_state, "pve1", &clone).unwrap().unwrap().size, 4 << 20);
        free(&mut pve_state, "pve1", &base).unwrap();
    }

    #[test]
    fn clone_on_zfs_contains_base_in_its_name() {
        let mut pve_state = pve_state();
        let base = base_of(&mut pve_state, "zfspool:vm-9000-disk-0");
        let clone = clone_image(&mut pve_state, "pve1", &base, None, 101, 1).unwrap();
        assert_eq!(clone.to_string(), "zfspool:base-9000-disk-0/vm-101-disk-0");
        assert!(is_base_in_use(&pve_state, "pve1", &base).unwrap());
        free(&mut pve_state, "pve1", &clone).unwrap();
        free(&mut pve_state, "pve1", &base).unwrap();
    }

    #[test]
    fn unsupported_base_volumes_are_rejected() {
        let mut pve_state = pve_state();
        let say = |pve_state: &mut PveState, text: &str| {
            create_base(pve_state, "pve1", &id(text)).unwrap_err().message
        };
        assert_eq!(
            say(&mut pve_state, "lvm:vm-1-disk-0"),
            "can't create base images in lvm storage"
        );
        assert_eq!(say(&mut pve_state, "dir:iso/x.iso"), "create_base on wrong vtype 'iso'");
        assert_eq!(
            say(&mut pve_state, "dir:1/base-1-disk-0.raw"),
            "create_base not possible with base image"
        );
        let disk = id("lvmthin:vm-1-disk-0");
        put(&mut pve_state, "pve1", &disk, volume("raw", 4 << 20)).unwrap();
        let clone = clone_image(&mut pve_state, "pve1", &disk, None, 101, 1).unwrap_err();
        assert_eq!(clone.message, "clone_image only works on base images");
    }
}
