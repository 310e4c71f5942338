//! What each kind of storage can do: formats, features, where things lie, how sizes are rounded.

use super::super::world::{ContentType, Storage, StorageKind};
use super::super::{Refusal, Release};
use super::name::VolumeName;

/// LVM's unit of allocation.
const EXTENT: u64 = 4 << 20;
const MIB: u64 = 1 << 20;
/// What QEMU counts in.
pub(crate) const SECTOR: u64 = 512;
/// No volume is larger, in bytes: what QEMU can address.
pub(crate) const LARGEST: u64 = 1 << 60;

/// Something that a volume may be able to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Feature {
    Snapshot,
    /// Linked clones.
    Clone,
    /// Full clones.
    Copy,
    Template,
    Rename,
}

/// What of a volume is asked about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Current,
    Base,
    Snapshot,
}

/// Whether the volume, or one of its snapshots, can do this.
pub(crate) fn has_feature(
    release: Release,
    storage: &Storage,
    name: &VolumeName,
    feature: Feature,
    snapshot: Option<&str>,
) -> bool {
    use Feature::{Clone, Copy, Rename, Snapshot, Template};
    let stage = match snapshot {
        Some(_) => Stage::Snapshot,
        None if name.is_base => Stage::Base,
        None => Stage::Current,
    };
    let qcow2 = name.format == "qcow2";
    let image = matches!(name.format, "raw" | "qcow2" | "vmdk");
    match storage.kind {
        StorageKind::Dir | StorageKind::Nfs | StorageKind::Cifs => match (feature, stage) {
            (Snapshot, Stage::Current | Stage::Snapshot) | (Copy, Stage::Snapshot) => qcow2,
            (Clone, Stage::Base)
            | (Copy, Stage::Base | Stage::Current)
            | (Rename, Stage::Current) => image,
            (Template, Stage::Current) => image || name.format == "subvol",
            _ => false,
        },
        StorageKind::Lvm => match (feature, stage) {
            (Copy, Stage::Base | Stage::Current) | (Rename, Stage::Current) => true,
            (Snapshot, Stage::Current | Stage::Snapshot) | (Copy, Stage::Snapshot) => {
                qcow2 && release >= Release::V9
            }
            _ => false,
        },
        StorageKind::LvmThin => matches!(
            (feature, stage),
            (Snapshot | Template | Rename, Stage::Current)
                | (Clone, Stage::Base | Stage::Snapshot)
                | (Copy, _)
        ),
        StorageKind::ZfsPool => matches!(
            (feature, stage),
            (Snapshot, Stage::Current | Stage::Snapshot)
                | (Clone, Stage::Base)
                | (Template | Rename, Stage::Current)
                | (Copy, Stage::Base | Stage::Current)
        ),
    }
}

/// The formats that new volumes can have here, sorted.
pub(crate) fn formats(storage: &Storage) -> &'static [&'static str] {
    match storage.kind {
        StorageKind::Dir => &["qcow2", "raw", "subvol", "vmdk"],
        StorageKind::Nfs | StorageKind::Cifs => &["qcow2", "raw", "vmdk"],
        StorageKind::Lvm if has_volume_chains(storage) => &["qcow2", "raw"],
        StorageKind::Lvm | StorageKind::LvmThin => &["raw"],
        StorageKind::ZfsPool => &["raw", "subvol"],
    }
}

/// The format of a new volume when nobody asks for one.
pub(crate) fn default_format(storage: &Storage) -> &str {
    match storage.kind {
        StorageKind::Lvm if has_volume_chains(storage) => "qcow2",
        kind if kind.has_files() => storage.options.get("format").map_or("raw", String::as_str),
        _ => "raw",
    }
}

/// The wished format where the storage has it, else its default.
pub(crate) fn format_or_default<'a>(storage: &'a Storage, wish: Option<&'a str>) -> &'a str {
    wish.filter(|wish| formats(storage).contains(wish)).unwrap_or_else(|| default_format(storage))
}

/// Snapshots are volumes of their own, each on top of the one before.
pub(super) fn has_volume_chains(storage: &Storage) -> bool {
    storage.options.get("snapshot-as-volume-chain").is_some_and(|value| value == "1")
}

/// The size that a volume gets which is to hold at least so many bytes.
pub(crate) fn rounded(kind: StorageKind, format: &str, bytes: u64) -> u64 {
    let unit = match kind {
        StorageKind::Lvm | StorageKind::LvmThin if format == "raw" => EXTENT,
        StorageKind::ZfsPool if format == "raw" => MIB,
        _ => SECTOR,
    };
    bytes.div_ceil(unit).saturating_mul(unit)
}

/// What an empty volume takes at once.
pub(super) fn reserved(storage: &Storage, format: &str, size: u64) -> u64 {
    match storage.kind {
        StorageKind::Lvm => rounded(StorageKind::Lvm, "raw", size),
        StorageKind::ZfsPool if format == "raw" && !is_sparse(storage) => size,
        StorageKind::LvmThin | StorageKind::ZfsPool => 0,
        // A new qcow2 is a header and its tables: eight bytes for each cluster of 64 KiB.
        _ if format == "qcow2" => 196_608 + size.div_ceil(65_536) * 8,
        _ => 0,
    }
}

fn is_sparse(storage: &Storage) -> bool {
    storage.options.get("sparse").is_some_and(|value| value == "1")
}

/// Where a storage of files keeps this content.
pub(crate) fn folder(storage: &Storage, content: ContentType) -> Result<String, Refusal> {
    let path = storage.options.get("path").cloned();
    let path = path.ok_or_else(|| Refusal::failed("storage definition has no path"))?;
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

/// Where the host finds a volume.
pub(crate) fn path(storage: &Storage, name: &VolumeName) -> Result<String, Refusal> {
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

/// The volume group or pool that a block storage allocates from.
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
    fn features_by_kind_and_format() {
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
    fn paths_on_the_host() {
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
    fn a_wish_for_a_format_is_only_a_wish() {
        assert_eq!(format_or_default(&storage(StorageKind::LvmThin), Some("qcow2")), "raw");
        assert_eq!(format_or_default(&storage(StorageKind::Dir), Some("qcow2")), "qcow2");
        assert_eq!(format_or_default(&storage(StorageKind::Dir), None), "raw");
    }
}
