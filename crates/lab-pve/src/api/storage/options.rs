//! Options of a `storage.cfg` section for each storage type.

use std::collections::BTreeSet;

use crate::pve_state::{ContentType, StorageKind};
use crate::{ApiError, Release};

/// When an option of a storage may be set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum OptionRule {
    /// Required at creation, and cannot be changed afterwards.
    Fixed,
    /// Optional at creation, and cannot be changed afterwards.
    FixedIfGiven,
    Optional,
}

const FOR_ALL: [&str; 4] = ["bwlimit", "content", "disable", "nodes"];
const FOR_FILES: [&str; 8] = [
    "content-dirs",
    "create-base-path",
    "create-subdirs",
    "format",
    "max-protected-backups",
    "mkdir",
    "preallocation",
    "prune-backups",
];

/// Rule for an option of a storage type, or `None` if the type does not have the option.
pub(super) fn rule(release: Release, kind: StorageKind, option: &str) -> Option<OptionRule> {
    let optional: &[&str] = match kind {
        StorageKind::Dir => &["shared", "is_mountpoint"],
        StorageKind::Nfs => &["options"],
        StorageKind::Cifs => &["subdir", "username", "password", "domain", "smbversion", "options"],
        StorageKind::Lvm => {
            &["shared", "saferemove", "saferemove-stepsize", "saferemove_throughput", "tagged_only"]
        }
        StorageKind::LvmThin => &[],
        StorageKind::ZfsPool => &["blocksize", "sparse", "mountpoint"],
    };
    if required(kind).contains(&option) {
        return Some(OptionRule::Fixed);
    }
    let chains = option == "snapshot-as-volume-chain" && release >= Release::V9;
    let for_files = kind.has_files() && FOR_FILES.contains(&option);
    if chains && kind.has_files() || option == "base" && kind == StorageKind::Lvm {
        return Some(OptionRule::FixedIfGiven);
    }
    let known = FOR_ALL.contains(&option)
        || for_files
        || optional.contains(&option)
        || kind.has_files() && option == "maxfiles" && release < Release::V9
        || chains && kind == StorageKind::Lvm;
    known.then_some(OptionRule::Optional)
}

/// Options required at creation, in the order in which Proxmox reports them as missing.
pub(super) fn required(kind: StorageKind) -> &'static [&'static str] {
    match kind {
        StorageKind::Dir => &["path"],
        StorageKind::Nfs => &["export", "path", "server"],
        StorageKind::Cifs => &["path", "server", "share"],
        StorageKind::Lvm => &["vgname"],
        StorageKind::LvmThin => &["thinpool", "vgname"],
        StorageKind::ZfsPool => &["pool"],
    }
}

/// Options that Proxmox stores outside `storage.cfg` and never returns.
pub(super) const SECRET: [&str; 1] = ["password"];

/// Whether Proxmox returns the option as a number.
pub(super) fn is_number(option: &str) -> bool {
    let numbers = [
        "create-base-path",
        "create-subdirs",
        "disable",
        "max-protected-backups",
        "maxfiles",
        "mkdir",
        "saferemove",
        "saferemove-stepsize",
        "shared",
        "snapshot-as-volume-chain",
        "sparse",
        "tagged_only",
    ];
    numbers.contains(&option)
}

/// Default content types of a storage type.
pub(super) fn default_content(kind: StorageKind) -> BTreeSet<ContentType> {
    use ContentType::{Images, Rootdir};
    match kind {
        StorageKind::Dir | StorageKind::LvmThin | StorageKind::ZfsPool => [Images, Rootdir].into(),
        StorageKind::Nfs | StorageKind::Cifs | StorageKind::Lvm => [Images].into(),
    }
}

/// Parses a list of content types. Content types that the storage type does not support are omitted.
pub(super) fn parse_content(
    kind: StorageKind,
    names: &[&str],
) -> Result<BTreeSet<ContentType>, ApiError> {
    let can_hold = |content: &ContentType| {
        kind.has_files() || matches!(content, ContentType::Images | ContentType::Rootdir)
    };
    let content: BTreeSet<_> =
        names.iter().filter_map(|name| ContentType::parse(name)).filter(can_hold).collect();
    let none = names.contains(&"none") && kind == StorageKind::Dir;
    if none && !content.is_empty() {
        return Err(ApiError::failed("unable to combine 'none' with other content types"));
    }
    if content.is_empty() && kind != StorageKind::Dir {
        return Err(ApiError::failed("storage does not support content type 'none'"));
    }
    Ok(content)
}

pub(super) fn content_list(content: &BTreeSet<ContentType>) -> String {
    if content.is_empty() {
        return "none".to_owned();
    }
    let names: Vec<_> = content.iter().map(|content| content.name()).collect();
    names.join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn option_rules_depend_on_storage_type() {
        let of = |kind, option| rule(Release::V9, kind, option);
        assert_eq!(of(StorageKind::Dir, "path"), Some(OptionRule::Fixed));
        assert_eq!(of(StorageKind::Dir, "vgname"), None);
        assert_eq!(of(StorageKind::LvmThin, "shared"), None);
        assert_eq!(of(StorageKind::ZfsPool, "sparse"), Some(OptionRule::Optional));
        assert_eq!(of(StorageKind::Dir, "maxfiles"), None);
        assert_eq!(rule(Release::V8, StorageKind::Dir, "maxfiles"), Some(OptionRule::Optional));
        let chains = "snapshot-as-volume-chain";
        assert_eq!(of(StorageKind::Nfs, chains), Some(OptionRule::FixedIfGiven));
        assert_eq!(of(StorageKind::Lvm, chains), Some(OptionRule::Optional));
        assert_eq!(rule(Release::V8, StorageKind::Lvm, chains), None);
    }

    #[test]
    fn content_types_are_limited_by_storage_type() {
        let thin = parse_content(StorageKind::LvmThin, &["images", "iso"]).unwrap();
        assert_eq!(content_list(&thin), "images");
        let text = |kind, names: &[&str]| parse_content(kind, names).unwrap_err().message;
        assert_eq!(
            text(StorageKind::Lvm, &["iso"]),
            "storage does not support content type 'none'"
        );
        assert_eq!(
            text(StorageKind::Dir, &["none", "iso"]),
            "unable to combine 'none' with other content types"
        );
        assert_eq!(content_list(&parse_content(StorageKind::Dir, &["none"]).unwrap()), "none");
    }
}
