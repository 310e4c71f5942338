//! Parsing of volume names: content type, owner, format and base volume.

use std::sync::LazyLock;

use regex_lite::Regex;

use super::super::pve_state::{ContentType, StorageKind, Volume};
use super::super::{ApiError, Release};

/// Parsed volume name. The syntax of the name depends on the storage type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VolumeName {
    pub content: ContentType,
    /// Name of the file or block device without folders.
    pub file: String,
    pub owner: Option<u32>,
    /// Base volume, if the name of a linked clone contains it.
    pub base: Option<BaseName>,
    pub is_base: bool,
    pub format: &'static str,
}

/// Base volume in the name of a linked clone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BaseName {
    pub owner: u32,
    pub file: String,
}

const IMAGE_FORMATS: [&str; 4] = ["raw", "qcow2", "vmdk", "subvol"];
const IMPORT_FORMATS: [&str; 5] = ["ova", "ovf", "qcow2", "raw", "vmdk"];

fn regex(pattern: &str) -> Regex {
    Regex::new(pattern).expect("invariant: patterns are fixed and valid")
}

static LINKED_FILE: LazyLock<Regex> = LazyLock::new(|| regex(r"^([0-9]+)/(\S+)/([0-9]+)/(\S+)$"));
static OWNED_FILE: LazyLock<Regex> = LazyLock::new(|| regex(r"^([0-9]+)/(\S+)$"));
static GUEST_FILE: LazyLock<Regex> =
    LazyLock::new(|| regex(r"^(vm|base|subvol)-[0-9]+-[^/\s]+\.(raw|qcow2|vmdk|subvol)$"));
static SNAPSHOT_FILE: LazyLock<Regex> = LazyLock::new(|| regex(r"^snap-.*\.qcow2$"));
static ANY_FILE: LazyLock<Regex> =
    LazyLock::new(|| regex(r"^(base-)?[^/\s]+\.(raw|qcow2|vmdk|subvol)$"));
static ISO: LazyLock<Regex> = LazyLock::new(|| regex(r"^[^/]+\.(?i:iso|img)$"));
static TEMPLATE: LazyLock<Regex> =
    LazyLock::new(|| regex(r"^[^/]+\.(?i:tar|tar\.gz|tar\.xz|tar\.zst|tar\.bz2)$"));
static PLAIN_TAR: LazyLock<Regex> = LazyLock::new(|| regex(r"\.(?i:tar)$"));
static BACKUP: LazyLock<Regex> =
    LazyLock::new(|| regex(r"^[^/]+\.(?:tgz|(?:tar|vma)(?:\.(?:gz|lzo|zst|bz2))?)$"));
static BACKUP_OWNER: LazyLock<Regex> =
    LazyLock::new(|| regex(r"^vzdump-(?:openvz|lxc|qemu)-([0-9]+)-."));
static IN_ARCHIVE: LazyLock<Regex> =
    LazyLock::new(|| regex(r"^[ a-zA-Z0-9.+=_-]+\.ova/[ a-zA-Z0-9.+=_-]+\.(qcow2|raw|vmdk)$"));
static IMPORT: LazyLock<Regex> =
    LazyLock::new(|| regex(r"^[ a-zA-Z0-9.+=_-]+\.(ova|ovf|qcow2|raw|vmdk)$"));
static LVM: LazyLock<Regex> = LazyLock::new(|| regex(r"^[a-zA-Z0-9][a-zA-Z0-9_.-]*[a-zA-Z0-9]$"));
static LVM_VOLUME: LazyLock<Regex> = LazyLock::new(|| regex(r"^(vm|base)-([0-9]+)-\S+$"));
static ZFS_VOLUME: LazyLock<Regex> = LazyLock::new(|| {
    regex(r"^(?:((?:base|basevol)-([0-9]+)-\S+)/)?((base|basevol|vm|subvol)-([0-9]+)-\S+)$")
});

impl VolumeName {
    /// Parses a volume name on a storage of this type.
    pub fn parse(kind: StorageKind, name: &str) -> Result<Self, ApiError> {
        match kind {
            StorageKind::Dir | StorageKind::Nfs | StorageKind::Cifs => file_name(name),
            StorageKind::Lvm | StorageKind::LvmThin => lvm_name(kind, name),
            StorageKind::ZfsPool => zfs_name(name),
        }
    }

    /// Key under which the volume is stored. For a linked clone, this is the name without the base volume.
    pub fn key(&self, kind: StorageKind) -> String {
        match (kind.has_files(), self.content, self.owner) {
            (true, ContentType::Images, Some(owner)) => format!("{owner}/{}", self.file),
            (true, content, _) => format!("{}/{}", content.name(), self.file),
            (false, ..) => self.file.clone(),
        }
    }

    /// Key of the base volume, if the name contains a base volume.
    pub fn base_key(&self, kind: StorageKind) -> Option<String> {
        let BaseName { owner, file } = self.base.as_ref()?;
        Some(if kind.has_files() { format!("{owner}/{file}") } else { file.clone() })
    }
}

/// Volume name, as in lists and configs, of the volume that is stored under `key`.
pub(crate) fn full_name(kind: StorageKind, key: &str, volume: &Volume) -> String {
    match &volume.base {
        // On LVM-thin, the name of a linked clone does not contain the base volume.
        Some(base) if kind != StorageKind::LvmThin => format!("{base}/{key}"),
        _ => key.to_owned(),
    }
}

fn plain(content: ContentType, file: &str) -> VolumeName {
    VolumeName {
        content,
        file: file.to_owned(),
        owner: None,
        base: None,
        is_base: false,
        format: "raw",
    }
}

fn file_name(name: &str) -> Result<VolumeName, ApiError> {
    if let Some(parts) = LINKED_FILE.captures(name) {
        guest_file(&parts[2])?;
        let base = parts[1].parse().ok().map(|owner| BaseName { owner, file: parts[2].to_owned() });
        return owned_file(&parts[3], &parts[4], base);
    }
    if let Some(parts) = OWNED_FILE.captures(name) {
        return owned_file(&parts[1], &parts[2], None);
    }
    let parsed = match name.split_once('/') {
        Some(("iso", file)) if ISO.is_match(file) => Some(plain(ContentType::Iso, file)),
        Some(("vztmpl", file)) if TEMPLATE.is_match(file) => Some(plain(ContentType::Vztmpl, file)),
        Some(("backup", file)) if BACKUP.is_match(file) => {
            let owner = BACKUP_OWNER.captures(file).and_then(|parts| parts[1].parse().ok());
            Some(VolumeName { owner, ..plain(ContentType::Backup, file) })
        }
        Some(("snippets", file)) if !file.is_empty() && !file.contains('/') => {
            Some(plain(ContentType::Snippets, file))
        }
        Some(("import", file)) => import_file(file),
        _ => None,
    };
    parsed
        .ok_or_else(|| ApiError::failed(format!("unable to parse directory volume name '{name}'")))
}

fn import_file(file: &str) -> Option<VolumeName> {
    let format = if let Some(parts) = IN_ARCHIVE.captures(file) {
        match &parts[1] {
            "qcow2" => "ova+qcow2",
            "vmdk" => "ova+vmdk",
            _ => "ova+raw",
        }
    } else {
        let parts = IMPORT.captures(file)?;
        IMPORT_FORMATS.into_iter().find(|format| *format == &parts[1])?
    };
    Some(VolumeName { format, ..plain(ContentType::Import, file) })
}

fn owned_file(owner: &str, file: &str, base: Option<BaseName>) -> Result<VolumeName, ApiError> {
    let (format, is_base) = guest_file(file)?;
    let owner = owner.parse().ok();
    Ok(VolumeName { owner, base, is_base, format, ..plain(ContentType::Images, file) })
}

/// Format of a disk file, and whether the disk is a base volume. Both are derived from the file name.
pub(crate) fn guest_file(file: &str) -> Result<(&'static str, bool), ApiError> {
    let (is_base, format) = if let Some(parts) = GUEST_FILE.captures(file) {
        (&parts[1] == "base", parts[2].to_owned())
    } else if SNAPSHOT_FILE.is_match(file) {
        let text = format!("'{file}' is a snapshot filename, not a volume!");
        return Err(ApiError::failed(text));
    } else if let Some(parts) = ANY_FILE.captures(file) {
        (parts.get(1).is_some(), parts[2].to_owned())
    } else {
        return Err(ApiError::failed(format!("unable to parse volume filename '{file}'")));
    };
    let format = IMAGE_FORMATS.into_iter().find(|known| **known == *format).unwrap_or("raw");
    Ok((format, is_base))
}

fn lvm_name(kind: StorageKind, name: &str) -> Result<VolumeName, ApiError> {
    if !LVM.is_match(name) {
        return Err(ApiError::failed(format!("lvm name '{name}' contains illegal characters")));
    }
    let unknown = || ApiError::failed(format!("unable to parse lvm volume name '{name}'"));
    let parts = LVM_VOLUME.captures(name).ok_or_else(unknown)?;
    let is_base = &parts[1] == "base";
    if kind == StorageKind::Lvm && is_base {
        return Err(unknown());
    }
    let qcow2 = kind == StorageKind::Lvm && name.rsplit('.').next() == Some("qcow2");
    Ok(VolumeName {
        owner: parts[2].parse().ok(),
        is_base,
        format: if qcow2 { "qcow2" } else { "raw" },
        ..plain(ContentType::Images, name)
    })
}

fn zfs_name(name: &str) -> Result<VolumeName, ApiError> {
    let unknown = || ApiError::failed(format!("unable to parse zfs volume name '{name}'"));
    let parts = ZFS_VOLUME.captures(name).ok_or_else(unknown)?;
    let base = match (parts.get(1), parts.get(2).map(|owner| owner.as_str().parse())) {
        (Some(file), Some(Ok(owner))) => Some(BaseName { owner, file: file.as_str().to_owned() }),
        _ => None,
    };
    let prefix = &parts[4];
    Ok(VolumeName {
        owner: parts[5].parse().ok(),
        base,
        is_base: prefix.starts_with("base"),
        format: if matches!(prefix, "subvol" | "basevol") { "subvol" } else { "raw" },
        ..plain(ContentType::Images, &parts[3])
    })
}

/// Normalized file name of an upload or download, without folders and special characters.
pub(crate) fn normalise(file: &str) -> String {
    let file = file.strip_suffix('\n').unwrap_or(file);
    let file = file.rsplit(['/', '\\']).next().unwrap_or_default();
    file.chars()
        .map(|c| if c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '-') { c } else { '_' })
        .collect()
}

/// Rejects a file name that is invalid for this content type.
pub(crate) fn check_file_name(
    release: Release,
    content: ContentType,
    file: &str,
) -> Result<(), ApiError> {
    let wrong = |text: &str| Err(ApiError::parameter("filename", text));
    match content {
        ContentType::Iso if !ISO.is_match(file) => wrong("wrong file extension"),
        ContentType::Vztmpl if !TEMPLATE.is_match(file) => wrong("wrong file extension"),
        // Proxmox VE 8 rejects uncompressed archives.
        ContentType::Vztmpl if release < Release::V9 && PLAIN_TAR.is_match(file) => {
            wrong("wrong file extension")
        }
        ContentType::Import
            if import_file(file).is_none_or(|name| name.format == "ovf") || file.contains('/') =>
        {
            wrong("invalid filename or wrong extension")
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn text(kind: StorageKind, name: &str) -> String {
        VolumeName::parse(kind, name).unwrap_err().message
    }

    #[test]
    fn disk_file_names_are_parsed() {
        let disk = VolumeName::parse(StorageKind::Dir, "101/vm-101-disk-0.qcow2").unwrap();
        assert_eq!((disk.owner, disk.format, disk.is_base), (Some(101), "qcow2", false));
        assert_eq!(disk.key(StorageKind::Dir), "101/vm-101-disk-0.qcow2");

        let name = "9000/base-9000-disk-0.raw/101/vm-101-disk-0.qcow2";
        let clone = VolumeName::parse(StorageKind::Nfs, name).unwrap();
        assert_eq!(clone.key(StorageKind::Nfs), "101/vm-101-disk-0.qcow2");
        assert_eq!(clone.base_key(StorageKind::Nfs).unwrap(), "9000/base-9000-disk-0.raw");
        assert_eq!((clone.owner, clone.format), (Some(101), "qcow2"));

        let base = VolumeName::parse(StorageKind::Dir, "9000/base-9000-disk-0.raw").unwrap();
        assert!(base.is_base);
        assert_eq!(
            text(StorageKind::Dir, "101/foo/bar"),
            "unable to parse volume filename 'foo/bar'"
        );
        assert_eq!(
            text(StorageKind::Dir, "101/snap-a-vm-101-disk-0.qcow2"),
            "'snap-a-vm-101-disk-0.qcow2' is a snapshot filename, not a volume!"
        );
    }

    #[test]
    fn other_file_names_are_parsed() {
        for (name, content, format) in [
            ("iso/talos.iso", ContentType::Iso, "raw"),
            ("iso/TALOS.IMG", ContentType::Iso, "raw"),
            ("vztmpl/x.tar.zst", ContentType::Vztmpl, "raw"),
            ("snippets/user.yaml", ContentType::Snippets, "raw"),
            ("import/talos.qcow2", ContentType::Import, "qcow2"),
            ("import/a b.ova/disk.vmdk", ContentType::Import, "ova+vmdk"),
        ] {
            let parsed = VolumeName::parse(StorageKind::Dir, name).unwrap();
            assert_eq!((parsed.content, parsed.format), (content, format), "{name}");
            assert_eq!(parsed.key(StorageKind::Dir), name);
        }
        let backup = "backup/vzdump-qemu-101-2024_01_01-00_00_00.vma.zst";
        assert_eq!(VolumeName::parse(StorageKind::Dir, backup).unwrap().owner, Some(101));
        for name in ["foo/bar", "import/x.img", "iso/a/b.iso", "iso/x.raw", "snippets/", "10"] {
            assert_eq!(
                text(StorageKind::Cifs, name),
                format!("unable to parse directory volume name '{name}'")
            );
        }
    }

    #[test]
    fn block_volume_names_are_parsed() {
        let disk = VolumeName::parse(StorageKind::LvmThin, "base-101-disk-0").unwrap();
        assert!(disk.is_base && disk.owner == Some(101) && disk.base.is_none());
        assert_eq!(text(StorageKind::LvmThin, "10G"), "unable to parse lvm volume name '10G'");
        assert_eq!(text(StorageKind::Lvm, "-5"), "lvm name '-5' contains illegal characters");
        assert_eq!(
            text(StorageKind::Lvm, "base-1-disk-0"),
            "unable to parse lvm volume name 'base-1-disk-0'"
        );

        let clone = VolumeName::parse(StorageKind::ZfsPool, "base-9000-disk-0/vm-101-disk-0");
        let clone = clone.unwrap();
        assert_eq!(clone.key(StorageKind::ZfsPool), "vm-101-disk-0");
        assert_eq!(clone.base_key(StorageKind::ZfsPool).unwrap(), "base-9000-disk-0");
        assert_eq!(text(StorageKind::ZfsPool, "x"), "unable to parse zfs volume name 'x'");
        let subvol = VolumeName::parse(StorageKind::ZfsPool, "subvol-101-disk-0").unwrap();
        assert_eq!(subvol.format, "subvol");
    }

    #[test]
    fn upload_names_are_normalized_and_checked() {
        assert_eq!(normalise("/a/b/talos.iso"), "talos.iso");
        assert_eq!(normalise(r"C:\images\my disk.raw"), "my_disk.raw");
        assert_eq!(normalise("a+b=c.raw"), "a_b_c.raw");
        assert_eq!(normalise("grün.iso"), "gr_n.iso");
        let check = |content, file| check_file_name(Release::V9, content, file);
        let wrong = |content, file| check(content, file).unwrap_err().errors;
        assert_eq!(wrong(ContentType::Iso, "x.raw")["filename"], "wrong file extension");
        assert_eq!(wrong(ContentType::Iso, ".iso")["filename"], "wrong file extension");
        assert_eq!(
            wrong(ContentType::Import, "x.ovf")["filename"],
            "invalid filename or wrong extension"
        );
        assert!(check(ContentType::Import, "x.raw").is_ok());
        assert!(check(ContentType::Iso, "X.ISO").is_ok());
        assert!(check(ContentType::Vztmpl, "x.tar").is_ok());
        assert!(check_file_name(Release::V8, ContentType::Vztmpl, "x.tar").is_err());
        assert!(check_file_name(Release::V8, ContentType::Vztmpl, "x.tar.gz").is_ok());
    }

    proptest! {
        /// The parser accepts or rejects arbitrary names without a panic. The key of a parsed name can be parsed again.
        #[test]
        fn arbitrary_names_do_not_panic(name in "(vm-|base-|[0-9]{1,12}/|iso/|import/|.){0,4}.{0,20}(\\.raw|\\.iso|\\.qcow2)?") {
            for kind in ["dir", "nfs", "cifs", "lvm", "lvmthin", "zfspool"] {
                let kind = StorageKind::parse(kind).unwrap();
                if let Ok(parsed) = VolumeName::parse(kind, &name)
                    && parsed.owner.is_some() == (parsed.content == ContentType::Images)
                {
                    let again = VolumeName::parse(kind, &parsed.key(kind)).unwrap();
                    prop_assert_eq!((again.file, again.owner), (parsed.file, parsed.owner));
                }
            }
            prop_assert!(!normalise(&name).contains(['/', '\\', ' ', '\n']));
        }
    }
}
