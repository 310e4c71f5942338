use std::fmt;

use super::{GIB, Properties, join, parse_size};
use crate::id::{StorageId, VolumeId};

/// Disk or CD drive of a VM.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Drive {
    pub source: DriveSource,
    /// Further options, such as `discard`, `ssd`, `iothread`, `media` and `size`.
    pub options: Properties,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DriveSource {
    /// New, empty volume. Sending this value twice creates two volumes.
    New { storage: StorageId, gib: u32 },
    /// New volume with the content of another volume. Sending this value twice creates two volumes.
    Import { storage: StorageId, from: VolumeId },
    /// Volume on which Proxmox stores cloud-init data. Sending this value twice fails.
    Cloudinit { storage: StorageId },
    /// Existing volume.
    Volume(VolumeId),
    /// CD drive without a CD.
    Empty,
    /// Source that only root can set, such as a path.
    Other(String),
}

impl Drive {
    pub fn new(storage: &StorageId, gib: u32) -> Self {
        Self::of(DriveSource::New { storage: storage.clone(), gib })
    }

    pub fn import(storage: &StorageId, from: &VolumeId) -> Self {
        Self::of(DriveSource::Import { storage: storage.clone(), from: from.clone() })
    }

    pub fn cloudinit(storage: &StorageId) -> Self {
        Self::of(DriveSource::Cloudinit { storage: storage.clone() })
    }

    pub fn volume(volume: &VolumeId) -> Self {
        Self::of(DriveSource::Volume(volume.clone()))
    }

    /// CD drive with this volume.
    pub fn cdrom(volume: &VolumeId) -> Self {
        Self::volume(volume).with("media", "cdrom")
    }

    fn of(source: DriveSource) -> Self {
        Self { source, options: Properties::default() }
    }

    #[must_use]
    pub fn with(mut self, option: &str, value: impl fmt::Display) -> Self {
        self.options.set(option, value);
        self
    }

    /// Storage of the existing or new volume.
    pub fn storage(&self) -> Option<&StorageId> {
        match &self.source {
            DriveSource::New { storage, .. }
            | DriveSource::Import { storage, .. }
            | DriveSource::Cloudinit { storage } => Some(storage),
            DriveSource::Volume(volume) => Some(volume.storage()),
            DriveSource::Empty | DriveSource::Other(_) => None,
        }
    }

    /// ID of the volume, if it already exists.
    pub fn volume_id(&self) -> Option<&VolumeId> {
        match &self.source {
            DriveSource::Volume(volume) => Some(volume),
            _ => None,
        }
    }

    pub fn is_cloudinit(&self) -> bool {
        match &self.source {
            DriveSource::Cloudinit { .. } => true,
            DriveSource::Volume(volume) => volume.is_cloudinit(),
            _ => false,
        }
    }

    pub fn is_cdrom(&self) -> bool {
        self.is_cloudinit() || self.options.get("media") == Some("cdrom")
    }

    /// Size in bytes, if the property string contains it.
    pub fn size(&self) -> Option<u64> {
        match (&self.source, self.options.get("size")) {
            (DriveSource::New { gib, .. }, None) => Some(u64::from(*gib) * GIB),
            (_, size) => parse_size(size?),
        }
    }

    /// Parses any notation of Proxmox.
    pub fn parse(text: &str) -> Self {
        let mut options = Properties::parse(text, Some("file"));
        let file = options.remove("file").or_else(|| options.remove("volume")).unwrap_or_default();
        let import = options.remove("import-from");
        Self { source: source(&file, import.as_deref()), options }
    }
}

fn source(file: &str, import: Option<&str>) -> DriveSource {
    let other = || DriveSource::Other(file.to_owned());
    if file == "none" {
        return DriveSource::Empty;
    }
    let parts =
        file.split_once(':').and_then(|(storage, rest)| Some((storage.parse().ok()?, rest)));
    let Some((storage, rest)) = parts else { return other() };
    if let Some(from) = import {
        return from.parse().map_or_else(|_| other(), |from| DriveSource::Import { storage, from });
    }
    if rest == "cloudinit" {
        return DriveSource::Cloudinit { storage };
    }
    match rest.parse() {
        Ok(gib) => DriveSource::New { storage, gib },
        Err(_) => file.parse().map_or_else(|_| other(), DriveSource::Volume),
    }
}

impl fmt::Display for Drive {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let source = match &self.source {
            DriveSource::New { storage, gib } => format!("{storage}:{gib}"),
            DriveSource::Import { storage, from } => format!("{storage}:0,import-from={from}"),
            DriveSource::Cloudinit { storage } => format!("{storage}:cloudinit"),
            DriveSource::Volume(volume) => volume.to_string(),
            DriveSource::Empty => "none".to_owned(),
            DriveSource::Other(text) => text.clone(),
        };
        f.write_str(&join([Some(source), Some(self.options.to_string())]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn drives_round_trip() {
        let storage: StorageId = "local-lvm".parse().unwrap();
        let image: VolumeId = "local:import/talos.qcow2".parse().unwrap();
        let drive = Drive::import(&storage, &image).with("ssd", 1).with("discard", "on");
        assert_eq!(
            drive.to_string(),
            "local-lvm:0,import-from=local:import/talos.qcow2,discard=on,ssd=1"
        );
        for drive in [
            drive,
            Drive::new(&storage, 40).with("iothread", 1),
            Drive::cloudinit(&storage),
            Drive::cdrom(&"local:iso/x.iso".parse().unwrap()),
            Drive::parse("none,media=cdrom"),
            Drive::parse("/dev/sda"),
        ] {
            assert_eq!(Drive::parse(&drive.to_string()), drive);
        }
    }

    #[test]
    fn stored_drives_are_parsed() {
        let disk = Drive::parse("local-lvm:vm-300-disk-1,discard=on,iothread=1,size=40G,ssd=1");
        assert_eq!(disk.storage().unwrap().as_str(), "local-lvm");
        assert_eq!(disk.size(), Some(40 * GIB));
        assert!(!disk.is_cdrom());
        assert_eq!(
            Drive::parse("file=local-lvm:vm-300-disk-1").volume_id().unwrap().name(),
            "vm-300-disk-1"
        );
        let cloudinit = Drive::parse("local-lvm:vm-300-cloudinit,media=cdrom,size=4M");
        assert!(cloudinit.is_cloudinit() && cloudinit.is_cdrom());
        assert_eq!(Drive::parse("none,media=cdrom").storage(), None);
    }
}
