//! Placement of the volumes of a config on disks.

use std::collections::BTreeMap;

use talmox_talos_config::Document;

use crate::disk::Disk;
use crate::disk_match::{self, Candidate};
use crate::talos_state::Node;

/// Volume of a config, with the place that it gets on a disk.
pub(super) struct PlacedVolume {
    /// Volume id, such as `u-data`: a prefix for the type, and the name.
    pub(super) id: String,
    /// Volume type: `partition`, `disk` or `directory`.
    pub(super) kind: String,
    pub(super) filesystem: &'static str,
    /// Mount point; empty if the volume is not mounted.
    pub(super) mount: String,
    pub(super) place: Result<VolumeLocation, String>,
}

#[derive(Clone, Debug, Default)]
pub(super) struct VolumeLocation {
    /// Device, such as `/dev/sdb`; empty for a directory.
    pub(super) device: String,
    /// Partition number; `None` for a whole disk.
    pub(super) index: Option<u8>,
    pub(super) size: u64,
}

/// Size of the partition EPHEMERAL: the remaining space of the system disk, or less if the config limits it.
pub(super) fn ephemeral_size(node: &Node, left: u64) -> u64 {
    let documents = node.config.iter().flat_map(|config| config.config.documents());
    let mut own = documents.filter(|document| {
        document.kind() == "VolumeConfig" && document.name() == Some("EPHEMERAL")
    });
    let most = own.find_map(|document| size_of(document, "maxSize", left));
    most.unwrap_or(left).min(left)
}

/// All volumes of a config, in the order of the config. `used` and `partitions` are the used bytes and the number of partitions
/// of the system disk.
pub(super) fn of(node: &Node, used: u64, partitions: u8) -> Vec<PlacedVolume> {
    let mut disks = DiskSpace { node, taken: BTreeMap::new() };
    if let Some(system) = &node.system_disk {
        disks.taken.insert(system.device.clone(), (used, partitions));
    }
    let user_disks = node.config.iter().flat_map(|config| &config.facts.user_disks);
    let mut placed: Vec<PlacedVolume> =
        user_disks.flat_map(|(path, partitions)| disks.user_disk(path, partitions)).collect();
    let documents = node.config.iter().flat_map(|config| config.config.documents());
    placed.extend(documents.filter_map(|document| disks.place(document)));
    placed
}

/// First path in `machine.disks` at which there is no disk. Talos waits until a disk has this path, before it starts anything
/// else.
pub(crate) fn missing_user_disk(node: &Node) -> Option<&str> {
    let mut wanted = node.config.as_ref()?.facts.user_disks.iter();
    let is_there = |path: &str| node.hardware.disks.iter().any(|disk| disk.is_at(path));
    wanted.find(|(path, _)| !is_there(path)).map(|(path, _)| path.as_str())
}

/// Disks, with the space that is already used on them.
struct DiskSpace<'a> {
    node: &'a Node,
    /// Used bytes and number of partitions, by device.
    taken: BTreeMap<String, (u64, u8)>,
}

impl DiskSpace<'_> {
    /// Volumes for an entry of `machine.disks`. Disk and partition number identify them.
    fn user_disk(&mut self, path: &str, partitions: &[(Option<u64>, String)]) -> Vec<PlacedVolume> {
        let Some(disk) = self.node.hardware.disks.iter().find(|disk| disk.is_at(path)) else {
            return vec![];
        };
        let place = |(number, (size, mount)): (usize, &(Option<u64>, String))| {
            let (used, partitions) = self.taken.get(&disk.device).copied().unwrap_or_default();
            let free = disk.size.saturating_sub(used);
            let size = size.unwrap_or(free).min(free);
            self.taken.insert(disk.device.clone(), (used + size, partitions + 1));
            let place =
                VolumeLocation { device: disk.device.clone(), index: Some(partitions + 1), size };
            PlacedVolume {
                id: format!("{path}-{}", number + 1),
                kind: "partition".to_owned(),
                filesystem: "xfs",
                mount: mount.clone(),
                place: Ok(place),
            }
        };
        partitions.iter().enumerate().map(place).collect()
    }

    fn place(&mut self, document: &Document) -> Option<PlacedVolume> {
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
            "directory" => Ok(VolumeLocation::default()),
            _ => self.find(document, &id, kind == "disk"),
        };
        Some(PlacedVolume { id, kind, filesystem, mount, place })
    }

    /// Place of a volume. An existing volume is found by its label. The disk selector applies only to a new volume.
    fn find(
        &mut self,
        document: &Document,
        id: &str,
        is_whole: bool,
    ) -> Result<VolumeLocation, String> {
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
            return Ok(VolumeLocation { device: disk.device.clone(), index, size });
        }
        let count = meant.len();
        Err(format!(
            "no disks matched for volume ({count} matched selector): {count} have not enough space, 0 have wrong format, 0 have other issues"
        ))
    }
}

/// Size from the section `provisioning` of a document. A percentage is relative to `whole`.
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
