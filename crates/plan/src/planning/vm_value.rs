//! Values of VM options, as plans show them.

use talmox_pve_types::config::option_number;
use talmox_pve_types::id::DiskSlot;
use talmox_pve_types::property::{Drive, GIB};

use crate::plan::{DiskValue, FieldValue};

/// Options that contain a secret.
const HIDDEN: &[&str] = &["cipassword", "sshkeys"];

pub(super) fn shown(key: &str, text: &str) -> FieldValue {
    if HIDDEN.contains(&key) {
        return "******".into();
    }
    // The text of a disk contains its storage, size and options.
    let drive = Drive::parse(text);
    if key.parse::<DiskSlot>().is_ok() && drive.storage().is_some() && !drive.is_cdrom() {
        return disk(&drive);
    }
    option_number(key, text).map_or_else(|| text.into(), FieldValue::from)
}

pub(super) fn disk(drive: &Drive) -> FieldValue {
    let mut options = drive.options.clone();
    let _size = options.remove("size");
    let disk = DiskValue {
        size_gib: drive.size().map(|bytes| bytes / GIB),
        storage: drive.storage().map(ToString::to_string).unwrap_or_default(),
        options: options.to_string(),
    };
    disk.into()
}
