//! Partitions of the system disk, volumes and mounts.

use serde_json::{Value, json};

use super::block::human_size;
use super::placement::{self, PlacedVolume, VolumeLocation};
use super::proto::{Field, Form};
use super::{Item, ResourceContext, ResourceSource, Spec};
use crate::talos_state::Node;

const PHASES: &[(&str, u64)] = &[("waiting", 0), ("failed", 1), ("missing", 2), ("ready", 6)];
const VOLUME: &[Field] = &[
    ("phase", 1, Form::Enum(PHASES)),
    ("location", 2, Form::Text),
    ("errorMessage", 3, Form::Text),
    ("parentLocation", 7, Form::Text),
    ("partitionIndex", 8, Form::Number),
    ("size", 9, Form::Number),
    ("filesystem", 10, Form::Enum(&[("xfs", 1), ("vfat", 2)])),
    ("mountLocation", 11, Form::Text),
    ("prettySize", 13, Form::Text),
];
const DISCOVERED: &[Field] = &[
    ("size", 1, Form::Number),
    ("name", 4, Form::Text),
    ("label", 6, Form::Text),
    ("partition_label", 12, Form::Text),
    ("partition_index", 13, Form::Number),
    ("type", 14, Form::Text),
    ("device_path", 15, Form::Text),
    ("parent", 16, Form::Text),
    ("dev_path", 17, Form::Text),
    ("parent_dev_path", 18, Form::Text),
    ("pretty_size", 19, Form::Text),
];

pub(super) const SOURCES: &[ResourceSource] = &[
    ResourceSource { name: "VolumeStatuses.block.talos.dev", proto: VOLUME, list: volumes },
    ResourceSource {
        name: "DiscoveredVolumes.block.talos.dev",
        proto: DISCOVERED,
        list: discovered,
    },
    ResourceSource {
        name: "MountStatuses.block.talos.dev",
        proto: &[("target", 2, Form::Text), ("source", 3, Form::Text)],
        list: |context| mounts(context).iter().map(block_mount).collect(),
    },
    ResourceSource {
        name: "MountStatuses.runtime.talos.dev",
        proto: &[
            ("source", 1, Form::Text),
            ("target", 2, Form::Text),
            ("filesystemType", 3, Form::Text),
            ("options", 4, Form::Each(&Form::Text)),
        ],
        list: mounts,
    },
];

/// Partition of the system disk.
struct SystemPartition {
    label: &'static str,
    index: u8,
    size: u64,
    filesystem: &'static str,
    /// Mount point; empty if the partition is not mounted.
    mount: &'static str,
}

const MIB: u64 = 1 << 20;

/// Partitions of the image, and the partitions STATE and EPHEMERAL that the first boot adds. EPHEMERAL gets the remaining
/// space.
fn partitions(node: &Node) -> Vec<SystemPartition> {
    let Some(disk) = system_disk(node) else { return vec![] };
    let boot_size = if node.version.is_at_least(11) { 2048 } else { 1000 } * MIB;
    let has_uki = node.version.is_at_least(10);
    let mut list = vec![];
    let mut add = |label, size, filesystem, mount| {
        let index = u8::try_from(list.len() + 1).unwrap_or(u8::MAX);
        list.push(SystemPartition { label, index, size, filesystem, mount });
    };
    add("EFI", if has_uki { boot_size } else { 100 * MIB }, "vfat", "");
    if !has_uki {
        add("BIOS", MIB, "", "");
        add("BOOT", 1000 * MIB, "xfs", "");
    }
    add("META", MIB, "talosmeta", "");
    if node.config.is_some() {
        add("STATE", 100 * MIB, "xfs", "/system/state");
        let left = disk.size.saturating_sub(list_size(has_uki, boot_size));
        add("EPHEMERAL", placement::ephemeral_size(node, left), "xfs", "/var");
    }
    list
}

/// Volumes that the config adds to those of Talos.
fn placed(node: &Node) -> Vec<PlacedVolume> {
    let own = partitions(node);
    let used = own.iter().map(|partition| partition.size).sum();
    placement::of(node, used, u8::try_from(own.len()).unwrap_or(u8::MAX))
}

/// Labels of the partitions for volumes of the config, each with the device that the partition is or will be on.
pub(crate) fn volume_labels(node: &Node) -> Vec<(String, String)> {
    let placed = placed(node).into_iter().filter(|placed| !placed.id.starts_with('/'));
    let partitions = placed.filter_map(|placed| {
        let place = placed.place.ok().filter(|place| place.index.is_some())?;
        Some((placed.id, place.device))
    });
    partitions.collect()
}

/// Name such as `sda1`, number and label of each partition.
pub(super) fn names(node: &Node) -> Vec<(String, u8, String)> {
    let system = system_disk(node).map(|disk| disk.id().to_owned()).unwrap_or_default();
    let own = partitions(node).into_iter();
    let own = own.map(|one| (format!("{system}{}", one.index), one.index, one.label.to_owned()));
    let more = placed(node).into_iter().filter_map(|placed| {
        let place = placed.place.ok()?;
        let (id, index) = (place.device.trim_start_matches("/dev/"), place.index?);
        let label = if placed.id.starts_with('/') { String::new() } else { placed.id };
        Some((format!("{id}{index}"), index, label))
    });
    own.chain(more).collect()
}

fn list_size(has_uki: bool, boot_size: u64) -> u64 {
    let boot = if has_uki { boot_size } else { 1101 * MIB };
    boot + 103 * MIB
}

fn system_disk(node: &Node) -> Option<&crate::disk::Disk> {
    let system = node.system_disk.as_ref()?;
    node.hardware.disks.iter().find(|disk| disk.device == system.device)
}

fn volumes(context: &ResourceContext<'_>) -> Vec<Item> {
    let node = context.node;
    let parent = node.system_disk.as_ref().map(|disk| disk.device.clone()).unwrap_or_default();
    let found = partitions(node);
    let mut items: Vec<Item> = ["META", "STATE", "EPHEMERAL"]
        .into_iter()
        .map(|label| {
            let Some(partition) = found.iter().find(|partition| partition.label == label) else {
                let phase = if label == "META" || node.config.is_none() { "missing" } else { "waiting" };
                return Item::new(label, json!({ "phase": phase, "type": "partition" }));
            };
            let location = format!("{parent}{}", partition.index);
            let mut spec = json!({
                "phase": "ready", "type": "partition", "location": location, "mountLocation": location,
                "partitionIndex": partition.index, "parentLocation": parent,
                "size": partition.size, "prettySize": human_size(partition.size),
            });
            if partition.filesystem == "xfs" {
                spec["filesystem"] = "xfs".into();
            }
            if !partition.mount.is_empty() {
                spec["mountSpec"] = json!({ "targetPath": partition.mount });
            }
            Item::new(label, spec)
        })
        .collect();
    items.extend(placed(node).iter().map(|placed| Item::new(placed.id.clone(), status(placed))));
    items
}

fn status(placed: &PlacedVolume) -> Value {
    let place = match &placed.place {
        Ok(place) => place,
        Err(reason) => {
            return json!({ "phase": "failed", "type": placed.kind, "errorMessage": reason });
        }
    };
    if place.device.is_empty() {
        return json!({ "phase": "ready", "type": placed.kind, "mountSpec": { "targetPath": placed.mount } });
    }
    let location = location(place);
    let mut spec = json!({
        "phase": "ready", "type": placed.kind, "location": location, "mountLocation": location,
        "parentLocation": place.device, "size": place.size, "prettySize": human_size(place.size),
    });
    if let Some(index) = place.index {
        spec["partitionIndex"] = index.into();
    }
    if !placed.filesystem.is_empty() {
        spec["filesystem"] = placed.filesystem.into();
    }
    if !placed.mount.is_empty() {
        spec["mountSpec"] = json!({ "targetPath": placed.mount });
    }
    spec
}

/// Path of the partition, such as `/dev/sdb1`, or of the whole disk.
fn location(place: &VolumeLocation) -> String {
    let index = place.index.map(|index| index.to_string()).unwrap_or_default();
    format!("{}{index}", place.device)
}

fn discovered(context: &ResourceContext<'_>) -> Vec<Item> {
    let node = context.node;
    let system = node.system_disk.as_ref().map(|disk| disk.device.as_str());
    let mut items = vec![];
    for disk in &node.hardware.disks {
        let id = disk.device.trim_start_matches("/dev/");
        let is_system = system == Some(disk.device.as_str());
        let name = match (disk.is_cdrom, is_system) {
            (true, _) => "iso9660",
            (_, true) => "gpt",
            _ => "",
        };
        items.push(Item::new(
            id,
            json!({
                "dev_path": disk.device, "type": "disk", "device_path": format!("/sys/block/{id}"),
                "size": disk.size, "pretty_size": human_size(disk.size), "name": name,
            }),
        ));
        for placed in placed(node) {
            let place = placed.place.as_ref().ok().filter(|place| place.device == disk.device);
            let Some((place, index)) = place.and_then(|place| Some((place, place.index?))) else {
                continue;
            };
            let id = format!("{id}{index}");
            items.push(Item::new(id.clone(), user_partition(&id, &placed, place)));
        }
        if !is_system {
            continue;
        }
        items.extend(partitions(node).into_iter().map(|partition| {
            let id = format!("{id}{}", partition.index);
            Item::new(id.clone(), described(&id, &disk.device, &partition))
        }));
    }
    items
}

fn described(id: &str, parent: &str, partition: &SystemPartition) -> Value {
    json!({
        "dev_path": format!("/dev/{id}"), "type": "partition",
        "device_path": format!("/sys/block/{}/{id}", parent.trim_start_matches("/dev/")),
        "parent": parent.trim_start_matches("/dev/"), "parent_dev_path": parent,
        "size": partition.size, "pretty_size": human_size(partition.size),
        "name": partition.filesystem, "label": if partition.filesystem == "xfs" { partition.label } else { "" },
        "partition_label": partition.label, "partition_index": partition.index,
    })
}

fn user_partition(id: &str, placed: &PlacedVolume, place: &VolumeLocation) -> Value {
    let parent = place.device.trim_start_matches("/dev/");
    json!({
        "dev_path": format!("/dev/{id}"), "type": "partition",
        "device_path": format!("/sys/block/{parent}/{id}"), "parent": parent, "parent_dev_path": place.device,
        "size": place.size, "pretty_size": human_size(place.size), "name": placed.filesystem,
        "partition_label": placed.id.strip_prefix('/').map_or(placed.id.as_str(), |_| ""),
        "partition_index": place.index,
    })
}

fn mounts(context: &ResourceContext<'_>) -> Vec<Item> {
    let Some(disk) = &context.node.system_disk else { return vec![] };
    let mounted =
        partitions(context.node).into_iter().filter(|partition| !partition.mount.is_empty());
    mounted
        .map(|partition| {
            let spec = json!({
                "source": format!("{}{}", disk.device, partition.index), "target": partition.mount,
                "filesystemType": partition.filesystem, "options": [], "encrypted": false,
            });
            Item::new(partition.label, spec)
        })
        .chain(placed(context.node).iter().filter_map(user_mount))
        .collect()
}

fn user_mount(placed: &PlacedVolume) -> Option<Item> {
    let place = placed.place.as_ref().ok().filter(|_| !placed.mount.is_empty())?;
    let source = if place.device.is_empty() { placed.mount.clone() } else { location(place) };
    let spec = json!({
        "source": source, "target": placed.mount, "filesystemType": placed.filesystem, "options": [],
        "encrypted": false,
    });
    Some(Item::new(placed.id.clone(), spec))
}

/// The same mount as a resource of the volume manager. Talos has this resource since 1.10.
fn block_mount(mount: &Item) -> Item {
    let Spec::Value(legacy) = &mount.spec else { return mount.clone() };
    let is_user = mount.id.starts_with("u-");
    let requester = if is_user { "block.VolumeConfigController" } else { "sequencer" };
    let spec = json!({
        "spec": {
            "volumeID": mount.id, "parentID": "", "readOnly": false, "detached": false,
            "requesters": [requester], "requesterIDs": [mount.id],
        },
        "source": legacy["source"], "target": legacy["target"], "filesystem": legacy["filesystemType"],
        "readOnly": false, "projectQuotaSupport": mount.id == "EPHEMERAL", "detached": false,
    });
    Item::new(mount.id.clone(), spec)
}
