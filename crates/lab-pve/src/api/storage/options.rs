//! Which options the section of each kind of storage can have.

use std::collections::BTreeSet;

use crate::world::{ContentType, StorageKind};
use crate::{Refusal, Release};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rule {
    /// Must be there from the start, and stays.
    Fixed,
    /// May be given at the start, and stays.
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

/// How a storage of this kind takes an option; `None` if it knows no such option.
pub(super) fn rule(release: Release, kind: StorageKind, option: &str) -> Option<Rule> {
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
        return Some(Rule::Fixed);
    }
    let chains = option == "snapshot-as-volume-chain" && release >= Release::V9;
    let for_files = kind.has_files() && FOR_FILES.contains(&option);
    if chains && kind.has_files() || option == "base" && kind == StorageKind::Lvm {
        return Some(Rule::FixedIfGiven);
    }
    let known = FOR_ALL.contains(&option)
        || for_files
        || optional.contains(&option)
        || kind.has_files() && option == "maxfiles" && release < Release::V9
        || chains && kind == StorageKind::Lvm;
    known.then_some(Rule::Optional)
}

/// What must be given for a new storage, in the order in which it is missed.
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

/// Options that are kept apart, and shown to nobody.
pub(super) const SECRET: [&str; 1] = ["password"];

/// Options that are numbers in answers.
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

/// What a storage is for if nobody says.
pub(super) fn usual_content(kind: StorageKind) -> BTreeSet<ContentType> {
    use ContentType::{Images, Rootdir};
    match kind {
        StorageKind::Dir | StorageKind::LvmThin | StorageKind::ZfsPool => [Images, Rootdir].into(),
        StorageKind::Nfs | StorageKind::Cifs | StorageKind::Lvm => [Images].into(),
    }
}

/// Reads a list of content types. Those that the kind cannot hold are left out.
pub(super) fn parse_content(
    kind: StorageKind,
    names: &[&str],
) -> Result<BTreeSet<ContentType>, Refusal> {
    let can_hold = |content: &ContentType| {
        kind.has_files() || matches!(content, ContentType::Images | ContentType::Rootdir)
    };
    let content: BTreeSet<_> =
        names.iter().filter_map(|name| ContentType::parse(name)).filter(can_hold).collect();
    let none = names.contains(&"none") && kind == StorageKind::Dir;
    if none && !content.is_empty() {
        return Err(Refusal::failed("unable to combine 'none' with other content types"));
    }
    if content.is_empty() && kind != StorageKind::Dir {
        return Err(Refusal::failed("storage does not support content type 'none'"));
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
    fn options_of_each_kind() {
        let of = |kind, option| rule(Release::V9, kind, option);
        assert_eq!(of(StorageKind::Dir, "path"), Some(Rule::Fixed));
        assert_eq!(of(StorageKind::Dir, "vgname"), None);
        assert_eq!(of(StorageKind::LvmThin, "shared"), None);
        assert_eq!(of(StorageKind::ZfsPool, "sparse"), Some(Rule::Optional));
        assert_eq!(of(StorageKind::Dir, "maxfiles"), None);
        assert_eq!(rule(Release::V8, StorageKind::Dir, "maxfiles"), Some(Rule::Optional));
        let chains = "snapshot-as-volume-chain";
        assert_eq!(of(StorageKind::Nfs, chains), Some(Rule::FixedIfGiven));
        assert_eq!(of(StorageKind::Lvm, chains), Some(Rule::Optional));
        assert_eq!(rule(Release::V8, StorageKind::Lvm, chains), None);
    }

    #[test]
    fn content_that_a_kind_can_hold() {
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
