//! Where the volumes are that a config asks for, or why they are nowhere.

use std::collections::BTreeMap;

use talmox_talos_config::Document;

use crate::disk::Disk;
use crate::disk_match::{self, Candidate};
use crate::talos_state::Node;

/// A volume that a config asks for.
pub(super) struct Placed {
    /// `u-data`: what kind of volume it is, and its name.
    pub(super) id: String,
    /// `partition`, `disk` or `directory`.
    pub(super) kind: String,
    pub(super) filesystem: &'static str,
    /// Where it is mounted, if it is.
    pub(super) mount: String,
    pub(super) place: Result<Place, String>,
}

#[derive(Clone, Debug, Default)]
pub(super) struct Place {
    /// `/dev/sdb`; empty for a directory.
    pub(super) device: String,
    /// None for what takes a whole disk.
    pub(super) index: Option<u8>,
    pub(super) size: u64,
}

/// How much of the system disk EPHEMERAL takes of what is left for it.
pub(super) fn ephemeral_size(node: &Node, left: u64) -> u64 {
    let documents = node.config.iter().flat_map(|config| config.config.documents());
    let mut own = documents.filter(|document| {
        document.kind() == "VolumeConfig" && document.name() == Some("EPHEMERAL")
    });
    let most = own.find_map(|document| size_of(document, "maxSize", left));
    most.unwrap_or(left).min(left)
}

/// All volumes of the node's config, in its order. `used` and `partitions` are those of the system disk.
pub(super) fn of(node: &Node, used: u64, partitions: u8) -> Vec<Placed> {
    let mut disks = Disks { node, taken: BTreeMap::new() };
    if let Some(system) = &node.system_disk {
        disks.taken.insert(system.device.clone(), (used, partitions));
    }
    let user_disks = node.config.iter().flat_map(|config| &config.facts.user_disks);
    let mut placed: Vec<Placed> =
        user_disks.flat_map(|(path, partitions)| disks.user_disk(path, partitions)).collect();
    let documents = node.config.iter().flat_map(|config| config.config.documents());
    placed.extend(documents.filter_map(|document| disks.place(document)));
    placed
}

/// The path of `machine.disks` that leads to no disk, if there is one: Talos waits for it before it starts anything else.
pub(crate) fn missing_user_disk(node: &Node) -> Option<&str> {
    let mut wanted = node.config.as_ref()?.facts.user_disks.iter();
    let is_there = |path: &str| node.hardware.disks.iter().any(|disk| disk.is_at(path));
    wanted.find(|(path, _)| !is_there(path)).map(|(path, _)| path.as_str())
}

/// What is free, and what was given away.
struct Disks<'a> {
    node: &'a Node,
    /// By device: bytes, and partitions.
    taken: BTreeMap<String, (u64, u8)>,
}

impl Disks<'_> {
    /// The partitions of an entry of `machine.disks`, found by the disk and their number alone.
    fn user_disk(&mut self, path: &str, partitions: &[(Option<u64>, String)]) -> Vec<Placed> {
        let Some(disk) = self.node.hardware.disks.iter().find(|disk| disk.is_at(path)) else {
            return vec![];
        };
        let place = |(number, (size, mount)): (usize, &(Option<u64>, String))| {
            let (used, partitions) = self.taken.get(&disk.device).copied().unwrap_or_default();
            let free = disk.size.saturating_sub(used);
            let size = size.unwrap_or(free).min(free);
            self.taken.insert(disk.device.clone(), (used + size, partitions + 1));
            let place = Place { device: disk.device.clone(), index: Some(partitions + 1), size };
            Placed {
                id: format!("{path}-{}", number + 1),
                kind: "partition".to_owned(),
                filesystem: "xfs",
                mount: mount.clone(),
                place: Ok(place),
            }
        };
        partitions.iter().enumerate().map(place).collect()
    }

    fn place(&mut self, document: &Document) -> Option<Placed> {
        let name = document.name()?;
        let (letter, filesystem, mount) = match document.kind() {
            "UserVolumeConfig" => ("u", "xfs", format!("/var/mnt/{name}")),
            "RawVolumeConfig" => ("r", "", String::new()),
            "SwapVolumeConfig" => ("s", "swap", String::new()),
            _ => return None,
        };
        let filesystem = match text(document, &["filesystem", "type"]).as_deref() {
            Some("ext4") => "ext4",
            _ => filesystem,
        };
        let kind = text(document, &["volumeType"]).unwrap_or_else(|| "partition".to_owned());
        let id = format!("{letter}-{name}");
        let place = match kind.as_str() {
            "directory" => Ok(Place::default()),
            _ => self.find(document, &id, kind == "disk"),
        };
        Some(Placed { id, kind, filesystem, mount, place })
    }

    /// A volume that exists is where its label is; the selector decides only where a new one is created.
    fn find(&mut self, document: &Document, id: &str, is_whole: bool) -> Result<Place, String> {
        let wanted = text(document, &["provisioning", "diskSelector", "match"]);
        let system = self.node.system_disk.as_ref().map(|disk| disk.device.as_str());
        let is_meant = |disk: &&Disk| {
            let is_system_disk = system == Some(disk.device.as_str());
            let candidate = Candidate { disk, is_system_disk };
            !disk.is_cdrom
                && wanted.as_ref().is_none_or(|wanted| disk_match::matches(wanted, &candidate))
        };
        let disks = &self.node.hardware.disks;
        let labelled = disks.iter().find(|disk| disk.labels.iter().any(|label| label == id));
        let meant: Vec<&Disk> = match labelled {
            Some(disk) => vec![disk],
            None => disks.iter().filter(is_meant).collect(),
        };
        if meant.is_empty() {
            return Err("no disks matched selector for volume".to_owned());
        }
        for disk in &meant {
            let (used, partitions) = self.taken.get(&disk.device).copied().unwrap_or_default();
            let free = disk.size.saturating_sub(used);
            let least = size_of(document, "minSize", disk.size).unwrap_or(1);
            if free < least || is_whole && used > 0 {
                continue;
            }
            let most = size_of(document, "maxSize", disk.size).unwrap_or(free);
            let size = if is_whole { disk.size } else { most.min(free) };
            self.taken.insert(disk.device.clone(), (used + size, partitions + 1));
            let index = (!is_whole).then_some(partitions + 1);
            return Ok(Place { device: disk.device.clone(), index, size });
        }
        let count = meant.len();
        Err(format!(
            "no disks matched for volume ({count} matched selector): {count} have not enough space, 0 have wrong format, 0 have other issues"
        ))
    }
}

/// A size of a document's provisioning; a share is one of `whole`.
fn size_of(document: &Document, key: &str, whole: u64) -> Option<u64> {
    let text = text(document, &["provisioning", key])?;
    match text.strip_suffix('%') {
        Some(share) => share.trim().parse::<u64>().ok().map(|share| whole / 100 * share),
        None => disk_match::size(&text),
    }
}

fn text(document: &Document, path: &[&str]) -> Option<String> {
    document.get(path)?.as_str().map(str::to_owned).filter(|text| !text.is_empty())
}
