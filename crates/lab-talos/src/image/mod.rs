//! Images of disks and CDs, and what a machine finds in them: which system boots from them, and what cloud-init left there.
//!
//! The bytes are read as a guest would read them, whatever format they are kept in.

mod cidata;
mod fat;
mod gpt;
mod iso;
mod layout;
mod little;
mod note;
mod sparse;
#[cfg(test)]
mod tests;
mod view;

use std::collections::BTreeMap;
use std::path::Path;

use serde::{Deserialize, Serialize};
use talmox_talos_config::schematic::Schematic;

pub use cidata::cidata_files;
pub(crate) use layout::Scale;

/// What boots from a disk or CD.
#[expect(clippy::large_enum_variant, reason = "there is never more than one for a machine")]
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum System {
    Talos(TalosImage),
    Ubuntu(UbuntuImage),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TalosImage {
    /// `v1.13.6`.
    pub version: String,
    pub platform: Platform,
    pub schematic_id: String,
    pub schematic: Schematic,
    pub secureboot: bool,
    pub medium: Medium,
    /// The values of META that the image comes with.
    pub meta: BTreeMap<u8, String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UbuntuImage {
    /// `24.04`.
    pub release: String,
    /// `noble`.
    pub codename: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Platform {
    Nocloud,
    Metal,
}

/// What Talos was booted from: an ISO is not installed yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Medium {
    Disk,
    Iso,
}

/// What machine code an image has. The lab's machines are all amd64.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Arch {
    Amd64,
    Arm64,
}

impl System {
    /// The system in a file: a raw disk, qcow2, or an ISO. None if nothing boots from it.
    pub fn read(path: &Path) -> Option<Self> {
        let (system, arch) = note::find(&mut view::View::open(path).ok()?)?;
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
