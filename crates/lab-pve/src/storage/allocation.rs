//! Allocation of empty volumes.

use std::collections::{BTreeMap, BTreeSet};

use super::super::pve_state::{PveState, Storage, StorageKind, Volume, VolumeId};
use super::super::{ApiError, Release};
use super::plugin_rules::{
    LARGEST, default_format, group, has_volume_chains, path, reserved, rounded,
};
use super::volume::storage_mut;
use super::volume_name::{VolumeName, guest_file};

const MAX_DISKS_PER_VM: u32 = 1024;

/// Parameters of a new volume.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Allocation<'a> {
    pub(crate) node: &'a str,
    pub(crate) storage: &'a str,
    pub(crate) vmid: u32,
    /// Image format; `None` for the default format of the storage.
    pub(crate) format: Option<&'a str>,
    /// File name; `None` for the first free `vm-{vmid}-disk-{n}`.
    pub(crate) name: Option<&'a str>,
    pub(crate) kib: u64,
    /// Creation time in seconds since 1970.
    pub(crate) now: u64,
}

/// Free space in bytes of a storage on a host.
pub(crate) fn room(storage: &Storage, node: &str) -> u64 {
    storage.capacity.saturating_sub(storage.used(node))
}

/// Creates an empty volume and returns its id.
pub(crate) fn alloc(pve_state: &mut PveState, new: &Allocation<'_>) -> Result<VolumeId, ApiError> {
    let storage = pve_state.storage(new.storage)?;
    let format = new.format.unwrap_or_else(|| default_format(storage)).to_owned();
    pve_state.storage_on(new.storage, new.node)?;
    let file = file_name(pve_state.release, storage, new, &format)?;
    let key = if storage.kind.has_files() { format!("{}/{file}", new.vmid) } else { file };
    let id = VolumeId::new(new.storage, key.as_str());
    let name = VolumeName::parse(storage.kind, &key)?;
    if storage.volume(new.node, &key).is_some() {
        return Err(exists(storage, &name)?);
    }
    let size = rounded(storage.kind, &format, new.kib.saturating_mul(1024).min(LARGEST));
    let used = reserved(storage, &format, size);
    let free = room(storage, new.node);
    if used > free || storage.kind == StorageKind::LvmThin && free == 0 {
        return Err(no_room(storage, &name, used, free));
    }
    let volume = Volume {
        format,
        size,
        used,
        backing: None,
        blob: None,
        written: None,
        base: None,
        created: new.now,
        snapshots: BTreeMap::new(),
        notes: None,
        protected: false,
        executable: false,
    };
    storage_mut(pve_state, new.storage)?.put(new.node, key, volume);
    Ok(id)
}

/// Name of the new volume: the requested name, or else the first free name. An invalid requested name is an error.
fn file_name(
    release: Release,
    storage: &Storage,
    new: &Allocation<'_>,
    format: &str,
) -> Result<String, ApiError> {
    let Allocation { vmid, name, .. } = *new;
    let prefix = if format == "subvol" { "subvol" } else { "vm" };
    let unsupported = |plugin: &str, line: u32| {
        ApiError::failed(format!(
            "unsupported format '{format}' at /usr/share/perl5/PVE/Storage/{plugin}.pm line {line}."
        ))
    };
    let illegal = |name: &str| {
        ApiError::failed(format!("illegal name '{name}' - should be '{prefix}-{vmid}-*'"))
    };
    let has_prefix = |name: &str| name.starts_with(&format!("{prefix}-{vmid}-"));
    match storage.kind {
        StorageKind::LvmThin if format != "raw" => return Err(unsupported("LvmThinPlugin", 101)),
        StorageKind::ZfsPool if !matches!(format, "raw" | "subvol") => {
            return Err(unsupported("ZFSPoolPlugin", 289));
        }
        StorageKind::Lvm => match format {
            "raw" => {}
            "qcow2" if release >= Release::V9 && has_volume_chains(storage) => {}
            "qcow2" if release >= Release::V9 => {
                return Err(ApiError::failed(
                    "snapshot-as-volume-chain option need to be enabled to use qcow2 format at \
                     /usr/share/perl5/PVE/Storage/LVMPlugin.pm line 698.",
                ));
            }
            _ => return Err(unsupported("LVMPlugin", 696)),
        },
        _ => {}
    }
    let Some(name) = name else { return first_free(storage, new, format, prefix) };
    match storage.kind {
        kind if kind.has_files() => {
            let (extension, _) = guest_file(name)?;
            if extension != format {
                return Err(ApiError::failed(format!(
                    "illegal name '{name}' - wrong extension for format ('{extension} != '{format}')"
                )));
            }
        }
        // On LVM, Proxmox VE 9 accepts any valid volume name.
        StorageKind::Lvm if release >= Release::V9 => {
            VolumeName::parse(StorageKind::Lvm, name)?;
        }
        _ if !has_prefix(name) => return Err(illegal(name)),
        _ => {}
    }
    Ok(name.to_owned())
}

pub(super) fn first_free(
    storage: &Storage,
    new: &Allocation<'_>,
    format: &str,
    prefix: &str,
) -> Result<String, ApiError> {
    let vmid = new.vmid;
    // On NFS and CIFS, and for qcow2 on LVM, disk numbers are unique only within a format. Elsewhere they are unique across all
    // formats.
    let by_format = matches!(storage.kind, StorageKind::Nfs | StorageKind::Cifs)
        || (storage.kind == StorageKind::Lvm && format == "qcow2");
    let suffix = if storage.kind.has_files() || format == "qcow2" {
        format!(".{format}")
    } else {
        String::new()
    };
    let mut taken = BTreeSet::new();
    for (key, _) in storage.volumes_on(new.node) {
        let file = key.rsplit('/').next().unwrap_or(key);
        let number = ["vm", "base", "subvol", "basevol"].iter().find_map(|prefix| {
            let rest = file.strip_prefix(prefix)?.strip_prefix('-')?;
            let rest = rest.strip_prefix(&vmid.to_string())?.strip_prefix("-disk-")?;
            let end = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
            let counts = !by_format || rest[end..] == suffix;
            rest[..end].parse::<u32>().ok().filter(|_| counts)
        });
        taken.extend(number);
    }
    (0..MAX_DISKS_PER_VM)
        .find(|number| !taken.contains(number))
        .map(|number| format!("{prefix}-{vmid}-disk-{number}{suffix}"))
        .ok_or_else(|| {
            ApiError::failed(format!(
                "unable to allocate an image name for VM {vmid} in storage '{}'",
                new.storage
            ))
        })
}

fn exists(storage: &Storage, name: &VolumeName) -> Result<ApiError, ApiError> {
    let (group, file) = (group(storage), &name.file);
    Ok(ApiError::failed(match storage.kind {
        StorageKind::Lvm | StorageKind::LvmThin => format!(
            "lvcreate '{group}/{file}' error:   Logical Volume \"{file}\" already exists in volume \
             group \"{group}\""
        ),
        StorageKind::ZfsPool => {
            format!("zfs error: cannot create '{group}/{file}': dataset already exists")
        }
        _ => format!("disk image '{}' already exists", path(storage, name)?),
    }))
}

fn no_room(storage: &Storage, name: &VolumeName, needed: u64, free: u64) -> ApiError {
    let (group, file) = (group(storage), &name.file);
    ApiError::failed(match storage.kind {
        StorageKind::LvmThin => {
            let pool = storage.options.get("thinpool").map_or("data", String::as_str);
            format!(
                "lvcreate '{group}/{file}' error:   Cannot create new thin volume, free space in \
                 thin pool {group}/{pool} reached threshold."
            )
        }
        StorageKind::Lvm => format!(
            "lvcreate '{group}/{file}' error:   Volume group \"{group}\" has insufficient free \
             space ({} extents): {} required.",
            free >> 22,
            needed >> 22
        ),
        StorageKind::ZfsPool => format!("zfs error: cannot create '{group}/{file}': out of space"),
        _ => "unable to create image: No space left on device".to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::super::fixture::pve_state;
    use super::super::volume::find;
    use super::*;

    fn new(storage: &'static str) -> Allocation<'static> {
        Allocation { node: "pve1", storage, vmid: 101, format: None, name: None, kib: 1049, now: 7 }
    }

    fn made(pve_state: &mut PveState, new: Allocation<'_>) -> String {
        alloc(pve_state, &new).unwrap().to_string()
    }

    fn rejected(pve_state: &mut PveState, new: Allocation<'_>) -> String {
        alloc(pve_state, &new).unwrap_err().message
    }

    #[test]
    fn first_free_disk_number_is_used() {
        let mut pve_state = pve_state();
        assert_eq!(made(&mut pve_state, new("lvmthin")), "lvmthin:vm-101-disk-0");
        assert_eq!(made(&mut pve_state, new("lvmthin")), "lvmthin:vm-101-disk-1");
        assert_eq!(made(&mut pve_state, new("dir")), "dir:101/vm-101-disk-0.raw");
        let qcow2 = |storage| Allocation { format: Some("qcow2"), ..new(storage) };
        assert_eq!(made(&mut pve_state, qcow2("dir")), "dir:101/vm-101-disk-1.qcow2");
        assert_eq!(made(&mut pve_state, new("nfs")), "nfs:101/vm-101-disk-0.raw");
        assert_eq!(made(&mut pve_state, qcow2("nfs")), "nfs:101/vm-101-disk-0.qcow2");
        let thin = VolumeId::parse("lvmthin:vm-101-disk-0").unwrap();
        let volume = find(&pve_state, "pve1", &thin).unwrap().unwrap();
        assert_eq!((volume.size, volume.used, volume.created), (4 << 20, 0, 7));
    }

    #[test]
    fn given_names_are_checked() {
        let mut pve_state = pve_state();
        let named = |storage, name| Allocation { name: Some(name), ..new(storage) };
        let thin = || named("lvmthin", "vm-101-cloudinit");
        assert_eq!(made(&mut pve_state, thin()), "lvmthin:vm-101-cloudinit");
        assert_eq!(
            rejected(&mut pve_state, thin()),
            "lvcreate 'pve/vm-101-cloudinit' error:   Logical Volume \"vm-101-cloudinit\" already \
             exists in volume group \"pve\""
        );
        assert_eq!(
            rejected(&mut pve_state, named("lvmthin", "vm-9-x")),
            "illegal name 'vm-9-x' - should be 'vm-101-*'"
        );
        assert_eq!(
            rejected(&mut pve_state, named("dir", "vm-101-cloudinit.qcow2")),
            "illegal name 'vm-101-cloudinit.qcow2' - wrong extension for format ('qcow2 != 'raw')"
        );
        assert_eq!(made(&mut pve_state, named("dir", "vm-101-x.raw")), "dir:101/vm-101-x.raw");
        assert_eq!(
            rejected(&mut pve_state, named("dir", "vm-101-x.raw")),
            "disk image '/var/lib/vz/images/101/vm-101-x.raw' already exists"
        );
    }

    #[test]
    fn unsupported_formats_and_storages_are_rejected() {
        let mut pve_state = pve_state();
        let qcow2 = |storage| Allocation { format: Some("qcow2"), ..new(storage) };
        assert!(
            rejected(&mut pve_state, qcow2("lvmthin"))
                .starts_with("unsupported format 'qcow2' at ")
        );
        assert!(
            rejected(&mut pve_state, qcow2("zfspool"))
                .starts_with("unsupported format 'qcow2' at ")
        );
        assert_eq!(rejected(&mut pve_state, new("ghost")), "storage 'ghost' does not exist");
        pve_state.storages.get_mut("dir").unwrap().disabled = true;
        assert_eq!(rejected(&mut pve_state, new("dir")), "storage 'dir' is disabled");
    }

    #[test]
    fn allocation_fails_without_space_on_thick_storages() {
        let mut pve_state = pve_state();
        let huge = |storage| Allocation { kib: 1 << 40, ..new(storage) };
        assert_eq!(made(&mut pve_state, huge("lvmthin")), "lvmthin:vm-101-disk-0");
        assert_eq!(made(&mut pve_state, huge("dir")), "dir:101/vm-101-disk-0.raw");
        assert_eq!(
            rejected(&mut pve_state, huge("lvm")),
            "lvcreate 'vgt/vm-101-disk-0' error:   Volume group \"vgt\" has insufficient free \
             space (25600 extents): 268435456 required."
        );
        assert!(rejected(&mut pve_state, huge("zfspool")).ends_with("out of space"));
        pve_state.storages.get_mut("lvmthin").unwrap().full = true;
        assert_eq!(
            rejected(&mut pve_state, new("lvmthin")),
            "lvcreate 'pve/vm-101-disk-1' error:   Cannot create new thin volume, free space in \
             thin pool pve/data reached threshold."
        );
    }
}
