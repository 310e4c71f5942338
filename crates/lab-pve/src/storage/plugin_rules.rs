//! Rules of each storage type: formats, features, paths and size rounding.

use super::super::pve_state::{ContentType, Storage, StorageKind};
use super::super::{ApiError, Release};
use super::volume_name::VolumeName;

/// LVM extent size in bytes.
const EXTENT: u64 = 4 << 20;
const MIB: u64 = 1 << 20;
/// Sector size of QEMU in bytes.
pub(crate) const SECTOR: u64 = 512;
/// Maximum size of a volume in bytes that QEMU supports.
pub(crate) const LARGEST: u64 = 1 << 60;

/// Feature of a volume. Storage type and format determine whether a volume has the feature.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Feature {
    Snapshot,
    /// Linked clone of a volume.
    Clone,
    /// Full clone of a volume.
    Copy,
    Template,
    Rename,
}

/// State of a volume that is asked for a feature: current, base volume or snapshot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum VolumeStage {
    Current,
    Base,
    Snapshot,
}

/// Whether a volume or one of its snapshots supports a feature.
pub(crate) fn has_feature(
    release: Release,
    storage: &Storage,
    name: &VolumeName,
    feature: Feature,
    snapshot: Option<&str>,
) -> bool {
    use Feature::{Clone, Copy, Rename, Snapshot, Template};
    let stage = match snapshot {
        Some(_) => VolumeStage::Snapshot,
        None if name.is_base => VolumeStage::Base,
        None => VolumeStage::Current,
    };
    let qcow2 = name.format == "qcow2";
    let image = matches!(name.format, "raw" | "qcow2" | "vmdk");
    match storage.kind {
        StorageKind::Dir | StorageKind::Nfs | StorageKind::Cifs => match (feature, stage) {
            (Snapshot, VolumeStage::Current | VolumeStage::Snapshot)
            | (Copy, VolumeStage::Snapshot) => qcow2,
            (Clone, VolumeStage::Base)
            | (Copy, VolumeStage::Base | VolumeStage::Current)
            | (Rename, VolumeStage::Current) => image,
            (Template, VolumeStage::Current) => image || name.format == "subvol",
            _ => false,
        },
        StorageKind::Lvm => match (feature, stage) {
            (Copy, VolumeStage::Base | VolumeStage::Current) | (Rename, VolumeStage::Current) => {
                true
            }
            (Snapshot, VolumeStage::Current | VolumeStage::Snapshot)
            | (Copy, VolumeStage::Snapshot) => qcow2 && release >= Release::V9,
            _ => false,
        },
        StorageKind::LvmThin => matches!(
            (feature, stage),
            (Snapshot | Template | Rename, VolumeStage::Current)
                | (Clone, VolumeStage::Base | VolumeStage::Snapshot)
                | (Copy, _)
        ),
        StorageKind::ZfsPool => matches!(
            (feature, stage),
            (Snapshot, VolumeStage::Current | VolumeStage::Snapshot)
                | (Clone, VolumeStage::Base)
                | (Template | Rename, VolumeStage::Current)
                | (Copy, VolumeStage::Base | VolumeStage::Current)
        ),
    }
}

/// Formats that new volumes on a storage can have, sorted by name.
pub(crate) fn formats(storage: &Storage) -> &'static [&'static str] {
    match storage.kind {
        StorageKind::Dir => &["qcow2", "raw", "subvol", "vmdk"],
        StorageKind::Nfs | StorageKind::Cifs => &["qcow2", "raw", "vmdk"],
        StorageKind::Lvm if has_volume_chains(storage) => &["qcow2", "raw"],
        StorageKind::Lvm | StorageKind::LvmThin => &["raw"],
        StorageKind::ZfsPool => &["raw", "subvol"],
    }
}

/// Default format of new volumes on a storage.
pub(crate) fn default_format(storage: &Storage) -> &str {
    match storage.kind {
        StorageKind::Lvm if has_volume_chains(storage) => "qcow2",
        kind if kind.has_files() => storage.options.get("format").map_or("raw", String::as_str),
        _ => "raw",
    }
}

/// Requested format if the storage supports it, or else the default format of the storage.
pub(crate) fn format_or_default<'a>(storage: &'a Storage, requested: Option<&'a str>) -> &'a str {
    requested
        .filter(|requested| formats(storage).contains(requested))
        .unwrap_or_else(|| default_format(storage))
}

/// Whether the storage keeps snapshots as a chain of volumes.
pub(super) fn has_volume_chains(storage: &Storage) -> bool {
    storage.options.get("snapshot-as-volume-chain").is_some_and(|value| value == "1")
}

/// Size in bytes of a volume that must hold at least `bytes`, rounded up to the unit of the storage.
pub(crate) fn rounded(kind: StorageKind, format: &str, bytes: u64) -> u64 {
    let unit = match kind {
        StorageKind::Lvm | StorageKind::LvmThin if format == "raw" => EXTENT,
        StorageKind::ZfsPool if format == "raw" => MIB,
        _ => SECTOR,
    };
    bytes.div_ceil(unit).saturating_mul(unit)
}

/// Space in bytes that an empty volume occupies.
pub(super) fn reserved(storage: &Storage, format: &str, size: u64) -> u64 {
    match storage.kind {
        StorageKind::Lvm => rounded(StorageKind::Lvm, "raw", size),
        StorageKind::ZfsPool if format == "raw" && !is_sparse(storage) => size,
        StorageKind::LvmThin | StorageKind::ZfsPool => 0,
        // A new qcow2 image contains a header and 8 bytes of tables per 64 KiB cluster.
        _ if format == "qcow2" => 196_608 + size.div_ceil(65_536) * 8,
        _ => 0,
    }
}

fn is_sparse(storage: &Storage) -> bool {
    storage.options.get("sparse").is_some_and(|value| value == "1")
}

/// Folder of a content type on a file-based storage.
pub(crate) fn folder(storage: &Storage, content: ContentType) -> Result<String, ApiError> {
    let path = storage.options.get("path").cloned();
    let path = path.ok_or_else(|| ApiError::failed("storage definition has no path"))?;
    let usual = match content {
        ContentType::Images => "images",
        ContentType::Rootdir => "private",
        ContentType::Iso => "template/iso",
        ContentType::Vztmpl => "template/cache",
        ContentType::Backup => "dump",
        ContentType::Snippets => "snippets",
        ContentType::Import => "import",
    };
    let changed = storage.options.get("content-dirs").and_then(|list| {
        list.split(',').filter_map(|entry| entry.split_once('=')).find_map(|(name, folder)| {
            (name == content.name()).then(|| folder.trim_start_matches('/').to_owned())
        })
    });
    Ok(format!("{path}/{}", changed.as_deref().unwrap_or(usual)))
}

/// Path of a volume on the host.
pub(crate) fn path(storage: &Storage, name: &VolumeName) -> Result<String, ApiError> {
    let VolumeName { file, owner, content, .. } = name;
    Ok(match storage.kind {
        StorageKind::Lvm | StorageKind::LvmThin => {
            format!("/dev/{}/{file}", group(storage))
        }
        StorageKind::ZfsPool if name.format == "subvol" => {
            let mount = storage.options.get("mountpoint").cloned();
            format!("{}/{file}", mount.unwrap_or_else(|| format!("/{}", group(storage))))
        }
        StorageKind::ZfsPool => format!("/dev/zvol/{}/{file}", group(storage)),
        _ => {
            let folder = folder(storage, *content)?;
            match owner {
                Some(owner) if *content == ContentType::Images => {
                    format!("{folder}/{owner}/{file}")
                }
                _ => format!("{folder}/{file}"),
            }
        }
    })
}

/// LVM volume group or ZFS pool of a block storage.
pub(super) fn group(storage: &Storage) -> &str {
    let option = if storage.kind == StorageKind::ZfsPool { "pool" } else { "vgname" };
    storage.options.get(option).map_or("pve", String::as_str)
}

#[cfg(test)]
mod tests {
    use super::super::fixture::storage;
    use super::*;

    fn feature(kind: StorageKind, name: &str, feature: Feature, snapshot: Option<&str>) -> bool {
        let storage = storage(kind);
        let name = VolumeName::parse(kind, name).unwrap();
        has_feature(Release::V9, &storage, &name, feature, snapshot)
    }

    #[test]
    fn features_depend_on_storage_type_and_format() {
        let dir = |name, what| feature(StorageKind::Dir, name, what, None);
        assert!(dir("101/vm-101-disk-0.qcow2", Feature::Snapshot));
        assert!(!dir("101/vm-101-disk-0.raw", Feature::Snapshot));
        assert!(!dir("101/vm-101-disk-0.qcow2", Feature::Clone));
        assert!(dir("101/base-101-disk-0.raw", Feature::Clone));
        assert!(!dir("101/base-101-disk-0.raw", Feature::Template));

        let thin = |name, what, snap| feature(StorageKind::LvmThin, name, what, snap);
        assert!(thin("vm-101-disk-0", Feature::Snapshot, None));
        assert!(!thin("vm-101-disk-0", Feature::Clone, None));
        assert!(thin("vm-101-disk-0", Feature::Clone, Some("a")));
        assert!(thin("base-101-disk-0", Feature::Clone, None));

        let thick = |what| feature(StorageKind::Lvm, "vm-101-disk-0", what, None);
        assert!(thick(Feature::Copy) && !thick(Feature::Snapshot) && !thick(Feature::Template));
        assert!(!feature(StorageKind::ZfsPool, "vm-101-disk-0", Feature::Copy, Some("a")));
    }

    #[test]
    fn sizes_are_rounded_up() {
        assert_eq!(rounded(StorageKind::LvmThin, "raw", 1049 * 1024), EXTENT);
        assert_eq!(rounded(StorageKind::ZfsPool, "raw", 540_672), MIB);
        assert_eq!(rounded(StorageKind::Dir, "raw", 540_672), 540_672);
        assert_eq!(rounded(StorageKind::Dir, "raw", 6), 512);
        assert_eq!(rounded(StorageKind::Lvm, "raw", u64::MAX), u64::MAX);
    }

    #[test]
    fn volume_paths_on_the_host() {
        let at = |kind, name: &str| {
            path(&storage(kind), &VolumeName::parse(kind, name).unwrap()).unwrap()
        };
        assert_eq!(at(StorageKind::Dir, "iso/talos.iso"), "/var/lib/vz/template/iso/talos.iso");
        assert_eq!(at(StorageKind::Dir, "import/none.raw"), "/var/lib/vz/import/none.raw");
        assert_eq!(
            at(StorageKind::Dir, "9/base-9-disk-0.raw/101/vm-101-disk-0.qcow2"),
            "/var/lib/vz/images/101/vm-101-disk-0.qcow2"
        );
        assert_eq!(at(StorageKind::LvmThin, "vm-101-disk-0"), "/dev/pve/vm-101-disk-0");
        assert_eq!(at(StorageKind::ZfsPool, "vm-101-disk-0"), "/dev/zvol/tank/vm-101-disk-0");
        assert_eq!(at(StorageKind::ZfsPool, "subvol-101-disk-0"), "/tank/subvol-101-disk-0");
    }

    #[test]
    fn unsupported_format_falls_back_to_default() {
        assert_eq!(format_or_default(&storage(StorageKind::LvmThin), Some("qcow2")), "raw");
        assert_eq!(format_or_default(&storage(StorageKind::Dir), Some("qcow2")), "qcow2");
        assert_eq!(format_or_default(&storage(StorageKind::Dir), None), "raw");
    }
}
