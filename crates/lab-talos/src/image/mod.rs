//! Disk and CD images, and their content: the operating system, and the files of cidata volumes.
//!
//! The content is read from the view of a guest, so it does not depend on the image format.

mod cidata;
mod descriptor;
mod disk_reader;
mod fat;
mod gpt;
mod iso;
mod layout;
mod little_endian;
mod sparse;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::path::Path;

use serde::{Deserialize, Serialize};
use talmox_talos_config::schematic::Schematic;

pub use cidata::cidata_files;
pub(crate) use layout::Scale;

/// Operating system that boots from a disk or CD.
#[expect(clippy::large_enum_variant, reason = "a machine has at most one")]
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum System {
    Talos(TalosImage),
    Ubuntu(UbuntuImage),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TalosImage {
    /// Version with the prefix `v`, such as `v1.13.6`.
    pub version: String,
    pub platform: Platform,
    pub schematic_id: String,
    pub schematic: Schematic,
    pub secureboot: bool,
    pub medium: Medium,
    /// Initial META values of the image.
    pub meta: BTreeMap<u8, String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UbuntuImage {
    /// Release number, such as `24.04`.
    pub release: String,
    /// Code name, such as `noble`.
    pub codename: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Platform {
    Nocloud,
    Metal,
}

/// Medium that Talos was booted from: an installed disk or an ISO.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Medium {
    Disk,
    Iso,
}

/// CPU architecture of an image. All machines of the lab are amd64.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Arch {
    Amd64,
    Arm64,
}

impl System {
    /// Operating system in an image file (raw, qcow2 or ISO); `None` if a machine cannot boot from the image.
    pub fn read(path: &Path) -> Option<Self> {
        let (system, arch) = descriptor::find(&mut disk_reader::DiskReader::open(path).ok()?)?;
        (arch == Arch::Amd64).then_some(system)
    }
}

impl TalosImage {
    pub(crate) fn new(
        version: String,
        platform: Platform,
        schematic: Schematic,
        secureboot: bool,
        medium: Medium,
    ) -> Self {
        let meta = schematic.customization.meta.iter();
        let meta = meta.map(|meta| (meta.key.0, meta.value.clone())).collect();
        let schematic_id = schematic.id();
        Self { version, platform, schematic_id, schematic, secureboot, medium, meta }
    }
}
