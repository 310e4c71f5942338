//! Formats of storages, volumes and paths.

use super::super::perl::fits;
use super::{ValueFormat, expect};

pub(crate) const VOLUME_ID: ValueFormat = ValueFormat {
    name: "pve-volume-id",
    check: |text, _| {
        expect(
            fits!(text, "(?i)([a-z][a-z0-9._-]*[a-z0-9]):(.+)"),
            format!("unable to parse volume ID '{text}'"),
        )
    },
};

pub(crate) const VOLUME_ID_OR_PATH: ValueFormat = ValueFormat {
    name: "pve-volume-id-or-absolute-path",
    check: |text, release| {
        if text.starts_with('/') { Ok(()) } else { (VOLUME_ID.check)(text, release) }
    },
};

/// File of a drive: a volume id, a path, `none` or `cdrom`.
pub(crate) const DRIVE_FILE: ValueFormat = ValueFormat {
    name: "pve-volume-id-or-qm-path",
    check: |text, release| match text {
        "none" | "cdrom" => Ok(()),
        text => (VOLUME_ID_OR_PATH.check)(text, release),
    },
};

pub(crate) const DISK_SIZE: ValueFormat = ValueFormat {
    name: "disk-size",
    check: |text, _| {
        expect(
            fits!(text, r"\d+(\.\d+)?([KMGT](iB)?)?"),
            format!("value does not look like a valid disk size: {text}"),
        )
    },
};

pub(crate) const CONTENT: ValueFormat = ValueFormat {
    name: "pve-storage-content",
    check: |text, _| expect(is_content(text), format!("invalid content type '{text}'")),
};

fn is_content(text: &str) -> bool {
    matches!(
        text,
        "backup" | "images" | "import" | "iso" | "none" | "rootdir" | "snippets" | "vztmpl"
    )
}

pub(crate) const STORAGE_PATH: ValueFormat = ValueFormat {
    name: "pve-storage-path",
    check: |text, _| {
        let mut rest = text.strip_prefix('/').unwrap_or_default().chars();
        expect(
            rest.next().is_some_and(|c| !matches!(c, ';' | '(' | ')')),
            "value does not look like a valid absolute path",
        )
    },
};

pub(crate) const STORAGE_OPTIONS: ValueFormat = ValueFormat {
    name: "pve-storage-options",
    check: |text, _| expect(fits!(text, r"\S+"), format!("invalid options '{text}'")),
};

/// LVM volume group or thin pool.
pub(crate) const VOLUME_GROUP: ValueFormat = ValueFormat {
    name: "pve-storage-vgname",
    check: |text, _| {
        expect(
            fits!(text, "(?i)[a-z0-9][a-z0-9._-]*[a-z0-9]"),
            format!("lvm name '{text}' contains illegal characters"),
        )
    },
};

/// Folder for a content type, in place of the default folder: `iso=images/cd`.
pub(crate) const FOLDER_OVERRIDE: ValueFormat = ValueFormat {
    name: "pve-dir-override",
    check: |text, _| {
        let invalid = || format!("invalid override '{text}'");
        let (content, path) = text.split_once('=').ok_or_else(invalid)?;
        let word = !content.is_empty() && content.bytes().all(|byte| byte.is_ascii_lowercase());
        // The path must not contain `..`, and must not end with a dot.
        let path_ok = !path.is_empty() && !path.contains("..") && !path.ends_with('.');
        if !word || !path_ok {
            return Err(invalid());
        }
        expect(is_content(content), format!("invalid content type '{content}'"))?;
        let short = path.len() < 1023 && path.split('/').all(|part| part.len() < 255);
        expect(short, invalid())
    },
};
