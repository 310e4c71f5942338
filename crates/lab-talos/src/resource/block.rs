//! Block resources: disks, block devices and their symlinks.

use serde_json::{Value, json};

use super::proto::{Field, Form};
use super::{Item, ResourceContext, ResourceSource, partition};
use crate::api::LOOP_SIZE;
use crate::disk::Disk;

/// First minor release of Talos 1 that has resources for symlinks.
const LINKS_SINCE: u32 = 10;
const LOOP_LINK: &str = "/dev/disk/by-diskseq/1";

const DISK: &[Field] = &[
    ("size", 1, Form::Number),
    ("io_size", 2, Form::Number),
    ("sector_size", 3, Form::Number),
    ("readonly", 4, Form::Number),
    ("model", 5, Form::Text),
    ("serial", 6, Form::Text),
    ("modalias", 7, Form::Text),
    ("wwid", 8, Form::Text),
    ("bus_path", 9, Form::Text),
    ("sub_system", 10, Form::Text),
    ("transport", 11, Form::Text),
    ("rotational", 12, Form::Number),
    ("cdrom", 13, Form::Number),
    ("dev_path", 14, Form::Text),
    ("pretty_size", 15, Form::Text),
    ("symlinks", 18, Form::Each(&Form::Text)),
];
const DEVICE: &[Field] = &[
    ("type", 1, Form::Text),
    ("major", 2, Form::Number),
    ("minor", 3, Form::Number),
    ("partitionName", 4, Form::Text),
    ("partitionNumber", 5, Form::Number),
    ("generation", 6, Form::Number),
    ("devicePath", 7, Form::Text),
    ("parent", 8, Form::Text),
];

pub(super) const SOURCES: &[ResourceSource] = &[
    ResourceSource { name: "Disks.block.talos.dev", proto: DISK, list: disks },
    ResourceSource { name: "BlockDevices.block.talos.dev", proto: DEVICE, list: devices },
    ResourceSource {
        name: "BlockSymlinks.block.talos.dev",
        proto: &[("paths", 1, Form::Each(&Form::Text))],
        list: links,
    },
    ResourceSource {
        name: "SystemDisks.block.talos.dev",
        proto: &[("diskID", 1, Form::Text), ("devPath", 2, Form::Text)],
        list: |context| {
            let disk = context.node.system_disk.iter();
            disk.map(|disk| {
                let id = disk.device.trim_start_matches("/dev/");
                Item::new("system-disk", json!({ "diskID": id, "devPath": disk.device }))
            })
            .collect()
        },
    },
];

fn disks(context: &ResourceContext<'_>) -> Vec<Item> {
    let has_links = context.node.version.is_at_least(LINKS_SINCE);
    let disks = context.node.hardware.disks.iter();
    let mut found: Vec<Item> =
        disks.map(|disk| Item::new(disk.id(), described(disk, has_links))).collect();
    let mut system = json!({
        "dev_path": "/dev/loop0", "size": LOOP_SIZE, "pretty_size": human_size(LOOP_SIZE),
        "io_size": 512, "sector_size": 512, "readonly": true, "cdrom": false,
        "bus_path": "/virtual", "sub_system": "/sys/class/block",
    });
    if has_links {
        system["symlinks"] = json!([LOOP_LINK]);
    }
    found.push(Item::new("loop0", system));
    found
}

fn described(disk: &Disk, has_links: bool) -> Value {
    let sector_size = if disk.is_cdrom { 2048 } else { 512 };
    let mut spec = json!({
        "dev_path": disk.device,
        "size": disk.size,
        "pretty_size": human_size(disk.size),
        "io_size": sector_size,
        "sector_size": sector_size,
        "readonly": disk.is_cdrom,
        "cdrom": disk.is_cdrom,
    });
    for (key, text) in [
        ("model", disk.model()),
        ("serial", disk.shown_serial()),
        ("modalias", disk.modalias()),
        ("wwid", &disk.wwid()),
        ("bus_path", &disk.bus_path()),
        ("sub_system", "/sys/class/block"),
        ("transport", disk.transport()),
    ] {
        if !text.is_empty() {
            spec[key] = text.into();
        }
    }
    if disk.is_rotational() {
        spec["rotational"] = true.into();
    }
    if has_links {
        spec["symlinks"] = disk.symlinks().into();
    }
    spec
}

/// Disks and their partitions.
fn devices(context: &ResourceContext<'_>) -> Vec<Item> {
    let device = |kind: &str, major: u32, minor: usize, path: String| json!({ "type": kind, "major": major, "minor": minor, "generation": 1, "devicePath": path });
    let mut found =
        vec![Item::new("loop0", device("disk", 7, 0, "/devices/virtual/block/loop0".to_owned()))];
    let partitions = partition::names(context.node);
    for (nth, disk) in context.node.hardware.disks.iter().enumerate() {
        let major = match disk.id().as_bytes() {
            [b's', b'r', ..] => 11,
            [b'v', ..] => 253,
            _ => 8,
        };
        let (id, minor) = (disk.id(), if major == 11 { nth } else { nth * 16 });
        let path = format!("/devices{}/block/{id}", disk.bus_path());
        found.push(Item::new(id, device("disk", major, minor, path.clone())));
        for (name, index, label) in partitions.iter().filter(|(name, ..)| name.starts_with(id)) {
            let minor = minor + usize::from(*index);
            let mut spec = device("partition", major, minor, format!("{path}/{name}"));
            if !label.is_empty() {
                spec["partitionName"] = label.as_str().into();
            }
            spec["partitionNumber"] = (*index).into();
            spec["parent"] = id.into();
            found.push(Item::new(name.clone(), spec));
        }
    }
    found
}

fn links(context: &ResourceContext<'_>) -> Vec<Item> {
    let paths = |paths: Vec<String>| json!({ "paths": paths });
    let mut found = vec![Item::new("loop0", paths(vec![LOOP_LINK.to_owned()]))];
    let partitions = partition::names(context.node);
    for disk in &context.node.hardware.disks {
        let (id, own) = (disk.id(), disk.symlinks());
        for (name, index, label) in partitions.iter().filter(|(name, ..)| name.starts_with(id)) {
            let mut all: Vec<String> =
                own.iter().map(|link| format!("{link}-part{index}")).collect();
            if !label.is_empty() {
                all.push(format!("/dev/disk/by-partlabel/{label}"));
            }
            all.sort();
            found.push(Item::new(name.clone(), paths(all)));
        }
        found.push(Item::new(id, paths(own)));
    }
    found
}

/// Rounded size in decimal units, such as `34 GB`.
pub(super) fn human_size(bytes: u64) -> String {
    const UNITS: [&str; 7] = ["B", "kB", "MB", "GB", "TB", "PB", "EB"];
    if bytes < 10 {
        return format!("{bytes} B");
    }
    let (mut unit, mut one) = (0, 1_u64);
    while bytes / one >= 1000 {
        one *= 1000;
        unit += 1;
    }
    // The size is rounded to tenths, because values below ten are shown with one decimal.
    let tenths = (u128::from(bytes) * 10 + u128::from(one) / 2) / u128::from(one);
    if tenths < 100 {
        format!("{}.{} {}", tenths / 10, tenths % 10, UNITS[unit])
    } else {
        let even =
            |whole: u128| if tenths % 10 == 5 { whole.is_multiple_of(2) } else { tenths % 10 < 5 };
        let whole = tenths / 10;
        format!("{} {}", if even(whole) { whole } else { whole + 1 }, UNITS[unit])
    }
}

#[cfg(test)]
mod tests {
    use super::human_size;

    #[test]
    fn sizes_are_rounded() {
        assert_eq!(human_size(34_359_738_368), "34 GB");
        // 12.88 GB is rounded up to 13 GB.
        assert_eq!(human_size(12 << 30), "13 GB");
        assert_eq!(human_size(1_048_576), "1.0 MB");
        assert_eq!(human_size(9_960_000), "10 MB");
        assert_eq!(human_size(1_990_000_000), "2.0 GB");
        assert_eq!(human_size(512), "512 B");
    }
}
