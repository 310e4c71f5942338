use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use serde::{Deserialize, Serialize};

use crate::blob::BlobId;
use crate::talos::Written;

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Storage {
    pub(crate) kind: StorageKind,
    pub(crate) content: BTreeSet<ContentType>,
    pub(crate) shared: bool,
    pub(crate) disabled: bool,
    /// The hosts it is for; empty means all.
    pub(crate) nodes: BTreeSet<String>,
    /// In bytes, on each host that has it.
    pub(crate) capacity: u64,
    /// Somebody filled it up with things that no list shows.
    #[serde(default)]
    pub(crate) full: bool,
    /// The rest of its section: `path`, `vgname`, `thinpool`, `pool`, `server`, `export`, `format`…
    pub(crate) options: BTreeMap<String, String>,
    /// What is on it: host (empty for a shared storage), then volume name.
    pub(crate) volumes: BTreeMap<String, BTreeMap<String, Volume>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum StorageKind {
    Dir,
    Nfs,
    Cifs,
    Lvm,
    LvmThin,
    ZfsPool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum ContentType {
    Images,
    Rootdir,
    Iso,
    Vztmpl,
    Backup,
    Snippets,
    Import,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Volume {
    /// `raw`, `qcow2`, `vmdk`, `subvol`, `iso`…, as content lists name it.
    pub(crate) format: String,
    /// What a guest sees, in bytes.
    pub(crate) size: u64,
    /// What it takes on the storage, in bytes.
    pub(crate) used: u64,
    pub(crate) backing: Option<Backing>,
    /// Its bytes, where there are any; else it reads as zeros.
    pub(crate) blob: Option<BlobId>,
    /// What a guest wrote onto it, beside those bytes.
    #[serde(default)]
    pub(crate) written: Option<Written>,
    /// The template's volume that a linked clone stands on.
    pub(crate) base: Option<String>,
    pub(crate) created: u64,
    /// Snapshots by name, with the size and bytes of that time.
    pub(crate) snapshots: BTreeMap<String, SavedVolume>,
    pub(crate) notes: Option<String>,
    pub(crate) protected: bool,
    /// Whether the host may run the file: hook scripts.
    #[serde(default)]
    pub(crate) executable: bool,
}

/// What a snapshot keeps of a volume.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct SavedVolume {
    pub(crate) size: u64,
    pub(crate) blob: Option<BlobId>,
    #[serde(default)]
    pub(crate) written: Option<Written>,
}

/// What an image's header refers to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Backing {
    pub(crate) file: String,
}

/// `storage:name`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct VolumeId {
    pub(crate) storage: String,
    pub(crate) name: String,
}

impl VolumeId {
    pub(crate) fn new(storage: impl Into<String>, name: impl Into<String>) -> Self {
        Self { storage: storage.into(), name: name.into() }
    }

    pub(crate) fn parse(text: &str) -> Option<Self> {
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
    pub(crate) fn saved(&self) -> SavedVolume {
        SavedVolume { size: self.size, blob: self.blob.clone(), written: self.written.clone() }
    }
}

impl Storage {
    pub(crate) fn is_on(&self, node: &str) -> bool {
        self.nodes.is_empty() || self.nodes.contains(node)
    }

    /// Under which key the volumes seen from this host are kept.
    fn place<'a>(&self, node: &'a str) -> &'a str {
        if self.shared { "" } else { node }
    }

    pub(crate) fn volumes_on(&self, node: &str) -> impl Iterator<Item = (&String, &Volume)> {
        self.volumes.get(self.place(node)).into_iter().flatten()
    }

    pub(crate) fn volume(&self, node: &str, name: &str) -> Option<&Volume> {
        self.volumes.get(self.place(node))?.get(name)
    }

    pub(crate) fn volume_mut(&mut self, node: &str, name: &str) -> Option<&mut Volume> {
        let place = self.place(node).to_owned();
        self.volumes.get_mut(&place)?.get_mut(name)
    }

    pub(crate) fn put(&mut self, node: &str, name: impl Into<String>, volume: Volume) {
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
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Dir => "dir",
            Self::Nfs => "nfs",
            Self::Cifs => "cifs",
            Self::Lvm => "lvm",
            Self::LvmThin => "lvmthin",
            Self::ZfsPool => "zfspool",
        }
    }

    pub(crate) fn parse(name: &str) -> Option<Self> {
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

    pub(crate) fn name(self) -> &'static str {
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

    pub(crate) fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.name() == name)
    }
}
