//! Storages, their volumes and paths.

use super::super::perl::fits;
use super::{Code, expect};

pub(crate) const VOLUME_ID: Code = Code {
    name: "pve-volume-id",
    check: |text, _| {
        expect(
            fits!(text, "(?i)([a-z][a-z0-9._-]*[a-z0-9]):(.+)"),
            format!("unable to parse volume ID '{text}'"),
        )
    },
};

pub(crate) const VOLUME_ID_OR_PATH: Code = Code {
    name: "pve-volume-id-or-absolute-path",
    check: |text, release| {
        if text.starts_with('/') { Ok(()) } else { (VOLUME_ID.check)(text, release) }
    },
};

/// What a drive may hold.
pub(crate) const DRIVE_FILE: Code = Code {
    name: "pve-volume-id-or-qm-path",
    check: |text, release| match text {
        "none" | "cdrom" => Ok(()),
        text => (VOLUME_ID_OR_PATH.check)(text, release),
    },
};

pub(crate) const DISK_SIZE: Code = Code {
    name: "disk-size",
    check: |text, _| {
        expect(
            fits!(text, r"\d+(\.\d+)?([KMGT](iB)?)?"),
            format!("value does not look like a valid disk size: {text}"),
        )
    },
};

pub(crate) const CONTENT: Code = Code {
    name: "pve-storage-content",
    check: |text, _| expect(is_content(text), format!("invalid content type '{text}'")),
};

fn is_content(text: &str) -> bool {
    matches!(
        text,
        "backup" | "images" | "import" | "iso" | "none" | "rootdir" | "snippets" | "vztmpl"
    )
}

pub(crate) const STORAGE_PATH: Code = Code {
    name: "pve-storage-path",
    check: |text, _| {
        let mut rest = text.strip_prefix('/').unwrap_or_default().chars();
        expect(
            rest.next().is_some_and(|c| !matches!(c, ';' | '(' | ')')),
            "value does not look like a valid absolute path",
        )
    },
};

pub(crate) const STORAGE_OPTIONS: Code = Code {
    name: "pve-storage-options",
    check: |text, _| expect(fits!(text, r"\S+"), format!("invalid options '{text}'")),
};

/// A volume group or a thin pool.
pub(crate) const VOLUME_GROUP: Code = Code {
    name: "pve-storage-vgname",
    check: |text, _| {
        expect(
            fits!(text, "(?i)[a-z0-9][a-z0-9._-]*[a-z0-9]"),
            format!("lvm name '{text}' contains illegal characters"),
        )
    },
};

/// Another folder for a type of content: `iso=images/cd`.
pub(crate) const FOLDER_OVERRIDE: Code = Code {
    name: "pve-dir-override",
    check: |text, _| {
        let invalid = || format!("invalid override '{text}'");
        let (content, path) = text.split_once('=').ok_or_else(invalid)?;
        let word = !content.is_empty() && content.bytes().all(|byte| byte.is_ascii_lowercase());
        // No two dots in a row, and none at the end.
        let path_ok = !path.is_empty() && !path.contains("..") && !path.ends_with('.');
        if !word || !path_ok {
            return Err(invalid());
        }
        expect(is_content(content), format!("invalid content type '{content}'"))?;
        let short = path.len() < 1023 && path.split('/').all(|part| part.len() < 255);
        expect(short, invalid())
    },
};
