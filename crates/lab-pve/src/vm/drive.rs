//! Drives of a VM: the options `scsi0`, `ide2`, `efidisk0` and their property strings.

use regex_lite::Regex;
use std::sync::LazyLock;

use crate::pve_state::{Config, VolumeId};
use crate::schema::{self, Fields, Format};

/// Whether an option is a drive. `unusedN` is not a drive.
pub(crate) fn is_slot(key: &str) -> bool {
    schema::is_drive(key)
}

pub(crate) fn is_unused(key: &str) -> bool {
    key.strip_prefix("unused")
        .is_some_and(|n| !n.is_empty() && n.bytes().all(|b| b.is_ascii_digit()))
}

/// Drive with the fields of its property string.
#[derive(Clone, Debug, PartialEq)]
pub struct Drive {
    pub key: String,
    fields: Fields,
}

/// Meaning of the field `file` of a drive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DriveSource {
    /// `none`: empty CD drive.
    None,
    /// `cdrom`: physical CD drive of the host.
    HostCdrom,
    /// `STORAGE:SIZE`: new volume. The size is the text in the option, in GiB.
    New {
        storage: Option<String>,
        size: String,
    },
    /// `STORAGE:cloudinit`: new cloud-init volume.
    NewCloudinit {
        storage: Option<String>,
    },
    Volume(VolumeId),
    /// Path of a file or device on the host.
    Path(String),
}

static NEW: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"^(?:([^/:\s]+):)?(\d+(?:\.\d+)?)$").expect("invariant: a valid pattern")
});
static CLOUDINIT: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"[:/](?:vm-\d+-)?cloudinit(?:\.(?:raw|qcow|qed|qcow2|vmdk|cloop))?$")
        .expect("invariant: a valid pattern")
});

impl Drive {
    /// Parses a drive or an `unusedN` option; `None` for an invalid text or contradicting fields.
    pub(crate) fn parse(key: &str, text: &str) -> Option<Self> {
        let fields = format_of(key)?.parse(text).ok()?;
        let drive = Self { key: key.to_owned(), fields };
        drive.is_consistent().then_some(drive)
    }

    fn is_consistent(&self) -> bool {
        let has = |name: &str| self.get(name).is_some_and(|value| value != "0");
        let conflicts =
            [("mbps_rd", "mbps"), ("mbps_wr", "mbps"), ("iops_rd", "iops"), ("iops_wr", "iops")];
        let needs = [
            ("mbps_max", "mbps"),
            ("mbps_rd_max", "mbps_rd"),
            ("mbps_wr_max", "mbps_wr"),
            ("bps_max_length", "mbps_max"),
            ("bps_rd_max_length", "mbps_rd_max"),
            ("bps_wr_max_length", "mbps_wr_max"),
            ("iops_max_length", "iops_max"),
            ("iops_rd_max_length", "iops_rd_max"),
            ("iops_wr_max_length", "iops_wr_max"),
        ];
        let no_cdrom = self.get("snapshot").is_some_and(|value| value == "1")
            || self.get("format").is_some()
            || self.key.starts_with("virtio");
        let is_wrong = conflicts.iter().any(|(one, other)| has(one) && has(other))
            || needs.iter().any(|(one, other)| has(one) && !has(other))
            || self.is_cdrom() && no_cdrom;
        !is_wrong
    }

    /// Property string of the drive: the file first, then the other fields sorted by name.
    pub(crate) fn print(&self) -> String {
        format_of(&self.key).map(|format| format.print(&self.fields)).unwrap_or_default()
    }

    pub fn get(&self, name: &str) -> Option<&str> {
        self.fields.get(name)
    }

    pub(crate) fn set(&mut self, name: &str, value: impl Into<String>) {
        self.fields.set(name, value);
    }

    pub(crate) fn remove(&mut self, name: &str) -> Option<String> {
        self.fields.remove(name)
    }

    pub(crate) fn file(&self) -> &str {
        self.get("file").unwrap_or_default()
    }

    /// Size of the disk in bytes, from the `size` field.
    pub fn size(&self) -> Option<u64> {
        self.get("size").and_then(schema::parse_size)
    }

    pub(crate) fn set_size(&mut self, bytes: u64) {
        self.set("size", schema::format_size(bytes));
    }

    pub fn is_cdrom(&self) -> bool {
        self.get("media") == Some("cdrom")
    }

    pub(crate) fn is_cloudinit(&self) -> bool {
        CLOUDINIT.is_match(self.file())
    }

    pub fn source(&self) -> DriveSource {
        let file = self.file();
        if let Some(found) = NEW.captures(file) {
            let part = |n: usize| found.get(n).map(|part| part.as_str().to_owned());
            return DriveSource::New { storage: part(1), size: part(2).unwrap_or_default() };
        }
        match file {
            "none" | "" => DriveSource::None,
            "cdrom" => DriveSource::HostCdrom,
            "cloudinit" => DriveSource::NewCloudinit { storage: None },
            path if path.starts_with('/') => DriveSource::Path(path.to_owned()),
            _ => match VolumeId::parse(file) {
                Some(volume) if volume.name == "cloudinit" => {
                    DriveSource::NewCloudinit { storage: Some(volume.storage) }
                }
                Some(volume) => DriveSource::Volume(volume),
                None => DriveSource::Path(file.to_owned()),
            },
        }
    }

    /// Volume of the drive, if the drive has a volume on a storage.
    pub(crate) fn volume(&self) -> Option<VolumeId> {
        match self.source() {
            DriveSource::Volume(volume) => Some(volume),
            _ => None,
        }
    }
}

/// Drives of a config, in the order that Proxmox uses.
pub fn drives(config: &Config) -> Vec<Drive> {
    schema::drive_names().filter_map(|key| Drive::parse(&key, config.get(&key)?)).collect()
}

/// Volumes of the `unusedN` options.
pub(crate) fn unused(config: &Config) -> Vec<Drive> {
    config
        .iter()
        .filter(|(key, _)| is_unused(key))
        .filter_map(|(key, value)| Drive::parse(key, value))
        .collect()
}

/// Name of the option with the cloud-init drive of a config. The option `except` is ignored.
pub(crate) fn cloudinit_slot(config: &Config, except: &str) -> Option<String> {
    drives(config)
        .into_iter()
        .find(|drive| drive.key != except && drive.is_cloudinit())
        .map(|drive| drive.key)
}

fn format_of(key: &str) -> Option<&'static Format> {
    schema::vm_option(crate::Release::V9, key)?.format
}
