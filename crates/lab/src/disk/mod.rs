//! What a machine finds on a disk.

use std::collections::BTreeMap;
use std::path::Path;

use talmox_talos_config::schematic::Schematic;

/// What boots from a disk or CD.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum System {
    Talos(TalosImage),
    Ubuntu(UbuntuImage),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TalosImage {
    pub(crate) version: String,
    pub(crate) platform: Platform,
    pub(crate) schematic_id: String,
    pub(crate) schematic: Schematic,
    pub(crate) secureboot: bool,
    pub(crate) medium: Medium,
    pub(crate) meta: BTreeMap<u8, String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct UbuntuImage {
    pub(crate) release: String,
    pub(crate) codename: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Platform {
    Nocloud,
    Metal,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Medium {
    Disk,
    Iso,
}

impl System {
    pub(crate) fn read(_: &Path) -> Option<Self> {
        None
    }
}

pub(crate) fn cidata_files(_: &Path) -> Option<BTreeMap<String, Vec<u8>>> {
    None
}
