use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::Value as Json;

use crate::blob::BlobId;

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Storage {
    pub kind: StorageKind,
    pub content: BTreeSet<ContentType>,
    pub shared: bool,
    pub disabled: bool,
    /// The hosts it is for; empty means all.
    pub nodes: BTreeSet<String>,
    /// In bytes, on each host that has it.
    pub capacity: u64,
    /// Somebody filled it up with things that no list shows.
    #[serde(default)]
    pub full: bool,
    /// The rest of its section: `path`, `vgname`, `thinpool`, `pool`, `server`, `export`, `format`…
    pub options: BTreeMap<String, String>,
    /// What is on it: host (empty for a shared storage), then volume name.
    pub volumes: BTreeMap<String, BTreeMap<String, Volume>>,
}

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

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Volume {
    /// `raw`, `qcow2`, `vmdk`, `subvol`, `iso`…, as content lists name it.
    pub format: String,
    /// What a guest sees, in bytes.
    pub size: u64,
    /// What it takes on the storage, in bytes.
    pub used: u64,
    pub backing: Option<Backing>,
    /// Its bytes, where there are any; else it reads as zeros.
    pub blob: Option<BlobId>,
    /// What a guest wrote onto it, beside those bytes, in a form that only the guest knows.
    #[serde(default)]
    pub written: Option<Json>,
    /// The template's volume that a linked clone stands on.
    pub base: Option<String>,
    pub created: u64,
    /// Snapshots by name, with the size and bytes of that time.
    pub snapshots: BTreeMap<String, SavedVolume>,
    pub notes: Option<String>,
    pub protected: bool,
    /// Whether the host may run the file: hook scripts.
    #[serde(default)]
    pub executable: bool,
}

/// What a snapshot keeps of a volume.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SavedVolume {
    pub size: u64,
    pub blob: Option<BlobId>,
    #[serde(default)]
    pub written: Option<Json>,
}

/// What an image's header refers to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Backing {
    pub file: String,
}

/// `storage:name`.
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
    /// As a snapshot or a copy keeps it.
    pub fn saved(&self) -> SavedVolume {
        SavedVolume { size: self.size, blob: self.blob.clone(), written: self.written.clone() }
    }
}

impl Storage {
    pub fn is_on(&self, node: &str) -> bool {
        self.nodes.is_empty() || self.nodes.contains(node)
    }

    /// Under which key the volumes seen from this host are kept.
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

    /// What is taken, in bytes: by its volumes, or all of it by who knows what.
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

    /// Volumes are files, in a folder for each content type.
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
