//! Sections `storages` and `volumes`.

use std::collections::{BTreeMap, BTreeSet};

use talmox_lab_pve::Release;
use talmox_lab_pve::pve_state::{ContentType, Host, Storage, StorageKind, VolumeId};
use talmox_yaml::Node;

use super::section::{Read, Section, Source};

/// Default size of a storage.
const SIZE: u64 = 4 << 40;

/// Options of a storage that the lab stores unchanged.
const OPTIONS: [&str; 17] = [
    "path",
    "vgname",
    "thinpool",
    "pool",
    "server",
    "export",
    "share",
    "username",
    "options",
    "format",
    "preallocation",
    "blocksize",
    "sparse",
    "mountpoint",
    "is_mountpoint",
    "prune-backups",
    "snapshot-as-volume-chain",
];

/// Volume as described in the scenario file.
#[derive(Clone, Debug)]
pub(super) struct VolumeSpec {
    pub(super) id: VolumeId,
    /// Hosts that have the volume. If the list is empty, the volume is on the host of the VM that uses it.
    pub(super) nodes: Vec<String>,
    pub(super) format: Option<String>,
    pub(super) size: u64,
    pub(super) used: Option<u64>,
    pub(super) backing: Option<String>,
    pub(super) text: Option<String>,
    pub(super) notes: Option<String>,
    pub(super) protected: bool,
    pub(super) executable: bool,
}

/// Storages `local` and `local-lvm`, as the installer creates them.
pub(super) fn default(release: Release) -> BTreeMap<String, Storage> {
    use ContentType::{Backup, Images, Import, Iso, Rootdir, Vztmpl};
    let mut files = BTreeSet::from([Iso, Vztmpl, Backup]);
    if release == Release::V9 {
        files.insert(Import);
    }
    let option = |key: &str, value: &str| (key.to_owned(), value.to_owned());
    let storage = |kind, content, capacity, options| Storage {
        kind,
        content,
        shared: false,
        disabled: false,
        nodes: BTreeSet::new(),
        capacity,
        full: false,
        options,
        volumes: BTreeMap::new(),
    };
    let path = BTreeMap::from([option("path", "/var/lib/vz")]);
    let pool = BTreeMap::from([option("vgname", "pve"), option("thinpool", "data")]);
    let disks = BTreeSet::from([Images, Rootdir]);
    BTreeMap::from([
        ("local".to_owned(), storage(StorageKind::Dir, files, 100 << 30, path)),
        ("local-lvm".to_owned(), storage(StorageKind::LvmThin, disks, 800 << 30, pool)),
    ])
}

pub(super) fn read(
    section: &Section<'_>,
    hosts: &BTreeMap<String, Host>,
) -> Read<Option<BTreeMap<String, Storage>>> {
    if section.get("storages").is_none() {
        return Ok(None);
    }
    let mut storages = BTreeMap::new();
    for node in section.list("storages")? {
        let (id, storage) = read_storage(section.source, node, hosts)?;
        if storages.insert(id.clone(), storage).is_some() {
            return Err(section
                .source
                .error(node.span, format!("storage `{id}` is defined twice")));
        }
    }
    Ok(Some(storages))
}

fn read_storage(
    source: Source<'_>,
    node: &Node,
    hosts: &BTreeMap<String, Host>,
) -> Read<(String, Storage)> {
    let mut keys = vec!["storage", "type", "content", "shared", "disable", "nodes", "size"];
    keys.extend(OPTIONS);
    let section = Section::open(source, node, "a storage", &keys)?;
    let id = section.name("storage")?;
    let kind_name = section.name("type")?;
    let kind = StorageKind::parse(&kind_name).ok_or_else(|| {
        section
            .error("type", format!("the lab has no storage of type `{kind_name}`"))
            .one_of(&kind_name, &["dir", "nfs", "cifs", "lvm", "lvmthin", "zfspool"])
    })?;
    let mut content = BTreeSet::new();
    for word in section.words("content")? {
        content.insert(ContentType::parse(&word).ok_or_else(|| {
            let known = ["images", "rootdir", "iso", "vztmpl", "backup", "snippets", "import"];
            section.error("content", format!("there is no content `{word}`")).one_of(&word, &known)
        })?);
    }
    if section.get("content").is_none() {
        content = usual_content(kind);
    }
    let nodes = section.words("nodes")?;
    known_hosts(&section, "nodes", &nodes, hosts)?;
    let mut options = BTreeMap::new();
    for key in OPTIONS {
        if let Some(value) = section.text(key)? {
            options.insert(key.to_owned(), value);
        }
    }
    for (key, value) in usual_options(kind, &id) {
        options.entry(key.to_owned()).or_insert(value);
    }
    let storage = Storage {
        kind,
        content,
        shared: section.flag("shared")? || matches!(kind, StorageKind::Nfs | StorageKind::Cifs),
        disabled: section.flag("disable")?,
        nodes: nodes.into_iter().collect(),
        capacity: section.size("size")?.unwrap_or(SIZE),
        full: false,
        options,
        volumes: BTreeMap::new(),
    };
    Ok((id, storage))
}

fn usual_content(kind: StorageKind) -> BTreeSet<ContentType> {
    match kind {
        StorageKind::Lvm | StorageKind::LvmThin | StorageKind::ZfsPool => {
            BTreeSet::from([ContentType::Images, ContentType::Rootdir])
        }
        StorageKind::Dir | StorageKind::Nfs | StorageKind::Cifs => {
            BTreeSet::from([ContentType::Images])
        }
    }
}

/// Default values of the options that a storage type requires.
fn usual_options(kind: StorageKind, id: &str) -> Vec<(&'static str, String)> {
    let text = str::to_owned;
    match kind {
        StorageKind::Dir if id == "local" => vec![("path", text("/var/lib/vz"))],
        StorageKind::Dir => vec![("path", format!("/mnt/{id}"))],
        StorageKind::Nfs => vec![
            ("path", format!("/mnt/pve/{id}")),
            ("server", text("10.0.0.5")),
            ("export", format!("/export/{id}")),
        ],
        StorageKind::Cifs => vec![
            ("path", format!("/mnt/pve/{id}")),
            ("server", text("10.0.0.5")),
            ("share", text(id)),
        ],
        StorageKind::Lvm => vec![("vgname", text(id))],
        StorageKind::LvmThin => vec![("vgname", text("pve")), ("thinpool", text("data"))],
        StorageKind::ZfsPool => vec![("pool", text(id))],
    }
}

pub(super) fn read_volumes(
    section: &Section<'_>,
    storages: &BTreeMap<String, Storage>,
    hosts: &BTreeMap<String, Host>,
) -> Read<Vec<VolumeSpec>> {
    let keys = [
        "volid",
        "node",
        "nodes",
        "format",
        "size",
        "used",
        "backing",
        "text",
        "notes",
        "protected",
        "executable",
    ];
    let read_one = |node| {
        let volume = Section::open(section.source, node, "a volume", &keys)?;
        let volid = volume.name("volid")?;
        let id = VolumeId::parse(&volid).ok_or_else(|| {
            volume.error("volid", format!("`{volid}` is not of the form storage:name"))
        })?;
        if !storages.contains_key(&id.storage) {
            let known: Vec<&str> = storages.keys().map(String::as_str).collect();
            let message = format!("there is no storage `{}`", id.storage);
            return Err(volume.error("volid", message).one_of(&id.storage, &known));
        }
        let mut nodes = volume.words("nodes")?;
        nodes.extend(volume.text("node")?);
        known_hosts(&volume, "node", &nodes, hosts)?;
        let (size, text) = (volume.size("size")?, volume.text("text")?);
        if size.is_some() && text.is_some() {
            return Err(volume.error("text", "a volume has a `size` or a `text`, not both"));
        }
        let length = text.as_ref().and_then(|text| u64::try_from(text.len()).ok());
        let size = size.or(length);
        Ok(VolumeSpec {
            id,
            nodes,
            format: volume.text("format")?,
            size: size.ok_or_else(|| volume.error("volid", "a volume needs `size` or `text`"))?,
            used: volume.size("used")?,
            backing: volume.text("backing")?,
            text,
            notes: volume.text("notes")?,
            protected: volume.flag("protected")?,
            executable: volume.flag("executable")?,
        })
    };
    section.list("volumes")?.iter().map(read_one).collect()
}

/// Checks that every node in the list is a host of the scenario.
pub(super) fn known_hosts(
    section: &Section<'_>,
    key: &str,
    nodes: &[String],
    hosts: &BTreeMap<String, Host>,
) -> Read<()> {
    match nodes.iter().find(|node| !hosts.contains_key(*node)) {
        None => Ok(()),
        Some(unknown) => {
            let known: Vec<&str> = hosts.keys().map(String::as_str).collect();
            let error = section.error(key, format!("there is no host `{unknown}`"));
            Err(error.one_of(unknown, &known))
        }
    }
}
