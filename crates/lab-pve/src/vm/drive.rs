//! Drives: the options `scsi0`, `ide2`, `efidisk0`… and what their property strings say.

use regex_lite::Regex;
use std::sync::LazyLock;

use crate::schema::{self, Fields, Format};
use crate::world::{Config, VolumeId};

/// Whether an option is a slot for a drive (`unusedN` is not).
pub(crate) fn is_slot(key: &str) -> bool {
    schema::is_drive(key)
}

pub(crate) fn is_unused(key: &str) -> bool {
    key.strip_prefix("unused")
        .is_some_and(|n| !n.is_empty() && n.bytes().all(|b| b.is_ascii_digit()))
}

/// A drive as its property string describes it.
#[derive(Clone, Debug, PartialEq)]
pub struct Drive {
    pub key: String,
    fields: Fields,
}

/// What the file of a drive stands for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// `none`: an empty CD drive.
    None,
    /// `cdrom`: the host's own drive.
    HostCdrom,
    /// `STORAGE:SIZE`: a volume to be made, with the size in GiB as it was written.
    New {
        storage: Option<String>,
        size: String,
    },
    /// `STORAGE:cloudinit`: a cloud-init volume to be made.
    NewCloudinit {
        storage: Option<String>,
    },
    Volume(VolumeId),
    /// A path of the host.
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
    /// Reads the value of a slot (or of `unusedN`). None where it makes no sense as a whole, though
    /// each of its parts may.
    pub(crate) fn parse(key: &str, text: &str) -> Option<Self> {
        let fields = format_of(key)?.parse(text).ok()?;
        let drive = Self { key: key.to_owned(), fields };
        drive.makes_sense().then_some(drive)
    }

    fn makes_sense(&self) -> bool {
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

    /// The property string: the file first, then the rest in order.
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

    /// In bytes.
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

    pub fn source(&self) -> Source {
        let file = self.file();
        if let Some(found) = NEW.captures(file) {
            let part = |n: usize| found.get(n).map(|part| part.as_str().to_owned());
            return Source::New { storage: part(1), size: part(2).unwrap_or_default() };
        }
        match file {
            "none" | "" => Source::None,
            "cdrom" => Source::HostCdrom,
            "cloudinit" => Source::NewCloudinit { storage: None },
            path if path.starts_with('/') => Source::Path(path.to_owned()),
            _ => match VolumeId::parse(file) {
                Some(volume) if volume.name == "cloudinit" => {
                    Source::NewCloudinit { storage: Some(volume.storage) }
                }
                Some(volume) => Source::Volume(volume),
                None => Source::Path(file.to_owned()),
            },
        }
    }

    /// The volume that the drive has, if it has one on a storage.
    pub(crate) fn volume(&self) -> Option<VolumeId> {
        match self.source() {
            Source::Volume(volume) => Some(volume),
            _ => None,
        }
    }
}

/// The drives of a configuration, in the order in which slots are gone through.
pub fn drives(config: &Config) -> Vec<Drive> {
    schema::drive_names().filter_map(|key| Drive::parse(&key, config.get(&key)?)).collect()
}

/// The volumes kept aside as `unusedN`.
pub(crate) fn unused(config: &Config) -> Vec<Drive> {
    config
        .iter()
        .filter(|(key, _)| is_unused(key))
        .filter_map(|(key, value)| Drive::parse(key, value))
        .collect()
}

/// Where a configuration has its cloud-init drive, other than in `except`.
pub(crate) fn cloudinit_slot(config: &Config, except: &str) -> Option<String> {
    drives(config)
        .into_iter()
        .find(|drive| drive.key != except && drive.is_cloudinit())
        .map(|drive| drive.key)
}

fn format_of(key: &str) -> Option<&'static Format> {
    schema::vm_option(crate::Release::V9, key)?.format
}
