use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::Value as Json;

use crate::blob::BlobId;

/// Storage with its configuration and volumes.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Storage {
    pub kind: StorageKind,
    pub content: BTreeSet<ContentType>,
    pub shared: bool,
    pub disabled: bool,
    /// Hosts of the storage; empty for all hosts.
    pub nodes: BTreeSet<String>,
    /// Capacity in bytes. For a storage that is not shared, this is the capacity on each host.
    pub capacity: u64,
    /// Whether a fault filled the storage. No volume shows this.
    #[serde(default)]
    pub full: bool,
    /// Other options of the section in `storage.cfg`: `path`, `vgname`, `thinpool`, `pool`, `server`, `export`, `format` and
    /// others.
    pub options: BTreeMap<String, String>,
    /// Volumes by host and name. The host is empty for a shared storage.
    pub volumes: BTreeMap<String, BTreeMap<String, Volume>>,
}

/// Storage type (plugin).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum StorageKind {
    Dir,
    Nfs,
    Cifs,
    Lvm,
    LvmThin,
    ZfsPool,
}

/// Content type of volumes on a storage.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ContentType {
    Images,
    Rootdir,
    Iso,
    Vztmpl,
    Backup,
    Snippets,
    Import,
}

/// Volume on a storage.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Volume {
    /// Format in volume lists: `raw`, `qcow2`, `vmdk`, `subvol`, `iso`…
    pub format: String,
    /// Virtual size of the volume in bytes.
    pub size: u64,
    /// Used space on the storage in bytes.
    pub used: u64,
    pub backing: Option<Backing>,
    /// Stored content; `None` for a volume that contains only zeros.
    pub blob: Option<BlobId>,
    /// Data that a simulated guest wrote, in a format that only the guest simulator reads.
    #[serde(default)]
    pub written: Option<Json>,
    /// Base volume of a linked clone.
    pub base: Option<String>,
    pub created: u64,
    /// Snapshots by name, with the size and content of the volume at that time.
    pub snapshots: BTreeMap<String, SavedVolume>,
    pub notes: Option<String>,
    pub protected: bool,
    /// Whether the file is executable. Hook scripts must be executable.
    #[serde(default)]
    pub executable: bool,
}

/// Size and content of a volume at the time of a snapshot.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SavedVolume {
    pub size: u64,
    pub blob: Option<BlobId>,
    #[serde(default)]
    pub written: Option<Json>,
}

/// Backing file that the header of an image names.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Backing {
    pub file: String,
}

/// Volume id: `storage:name`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct VolumeId {
    pub storage: String,
    pub name: String,
}

impl VolumeId {
    pub fn new(storage: impl Into<String>, name: impl Into<String>) -> Self {
        Self { storage: storage.into(), name: name.into() }
    }

    pub fn parse(text: &str) -> Option<Self> {
        let (storage, name) = text.split_once(':')?;
        (!storage.is_empty() && !name.is_empty()).then(|| Self::new(storage, name))
    }
}

impl fmt::Display for VolumeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.storage, self.name)
    }
}

impl Volume {
    /// Current size and content of the volume, for a snapshot or a copy.
    pub fn saved(&self) -> SavedVolume {
        SavedVolume { size: self.size, blob: self.blob.clone(), written: self.written.clone() }
    }
}

impl Storage {
    pub fn is_on(&self, node: &str) -> bool {
        self.nodes.is_empty() || self.nodes.contains(node)
    }

    /// Key for this host in `volumes`.
    fn place<'a>(&self, node: &'a str) -> &'a str {
        if self.shared { "" } else { node }
    }

    pub(crate) fn volumes_on(&self, node: &str) -> impl Iterator<Item = (&String, &Volume)> {
        self.volumes.get(self.place(node)).into_iter().flatten()
    }

    pub fn volume(&self, node: &str, name: &str) -> Option<&Volume> {
        self.volumes.get(self.place(node))?.get(name)
    }

    pub fn volume_mut(&mut self, node: &str, name: &str) -> Option<&mut Volume> {
        let place = self.place(node).to_owned();
        self.volumes.get_mut(&place)?.get_mut(name)
    }

    pub fn put(&mut self, node: &str, name: impl Into<String>, volume: Volume) {
        let place = self.place(node).to_owned();
        self.volumes.entry(place).or_default().insert(name.into(), volume);
    }

    pub(crate) fn take(&mut self, node: &str, name: &str) -> Option<Volume> {
        let place = self.place(node).to_owned();
        self.volumes.get_mut(&place)?.remove(name)
    }

    /// Used space in bytes on a host.
    pub(crate) fn used(&self, node: &str) -> u64 {
        if self.full {
            return self.capacity;
        }
        self.volumes_on(node).map(|(_, volume)| volume.used).sum()
    }
}

impl StorageKind {
    pub fn name(self) -> &'static str {
        match self {
            Self::Dir => "dir",
            Self::Nfs => "nfs",
            Self::Cifs => "cifs",
            Self::Lvm => "lvm",
            Self::LvmThin => "lvmthin",
            Self::ZfsPool => "zfspool",
        }
    }

    pub fn parse(name: &str) -> Option<Self> {
        [Self::Dir, Self::Nfs, Self::Cifs, Self::Lvm, Self::LvmThin, Self::ZfsPool]
            .into_iter()
            .find(|kind| kind.name() == name)
    }

    /// Whether volumes are files. Each content type then has its own folder.
    pub(crate) fn has_files(self) -> bool {
        matches!(self, Self::Dir | Self::Nfs | Self::Cifs)
    }
}

impl ContentType {
    const ALL: [Self; 7] = [
        Self::Images,
        Self::Rootdir,
        Self::Iso,
        Self::Vztmpl,
        Self::Backup,
        Self::Snippets,
        Self::Import,
    ];

    pub fn name(self) -> &'static str {
        match self {
            Self::Images => "images",
            Self::Rootdir => "rootdir",
            Self::Iso => "iso",
            Self::Vztmpl => "vztmpl",
            Self::Backup => "backup",
            Self::Snippets => "snippets",
            Self::Import => "import",
        }
    }

    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.name() == name)
    }
}
