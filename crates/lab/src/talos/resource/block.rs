//! Disks.

use serde_json::json;

use super::proto::{Field, Form};
use super::{Item, KIND, Kind, View};
use crate::talos::api::{LOOP_SIZE, bus_path, model};

const DISK: &[Field] = &[
    ("size", 1, Form::Number),
    ("io_size", 2, Form::Number),
    ("sector_size", 3, Form::Number),
    ("readonly", 4, Form::Number),
    ("model", 5, Form::Text),
    ("modalias", 7, Form::Text),
    ("bus_path", 9, Form::Text),
    ("sub_system", 10, Form::Text),
    ("transport", 11, Form::Text),
    ("rotational", 12, Form::Number),
    ("cdrom", 13, Form::Number),
    ("dev_path", 14, Form::Text),
    ("pretty_size", 15, Form::Text),
];

pub(super) const KINDS: &[Kind] = &[
    Kind {
        name: "Disks.block.talos.dev",
        columns: &[
            ("Size", "{.pretty_size}"),
            ("Read Only", "{.readonly}"),
            ("Transport", "{.transport}"),
            ("Rotational", "{.rotational}"),
            ("WWID", "{.wwid}"),
            ("Model", "{.model}"),
            ("Serial", "{.serial}"),
        ],
        proto: DISK,
        list: disks,
        ..KIND
    },
    Kind {
        name: "SystemDisks.block.talos.dev",
        columns: &[("Disk", "{.diskID}")],
        proto: &[("diskID", 1, Form::Text), ("devPath", 2, Form::Text)],
        list: |view| {
            let disk = view.node.system_disk.iter();
            disk.map(|disk| {
                let id = disk.device.trim_start_matches("/dev/");
                Item::new("system-disk", json!({ "diskID": id, "devPath": disk.device }))
            })
            .collect()
        },
        ..KIND
    },
];

fn disks(view: &View<'_>) -> Vec<Item> {
    let mut found: Vec<Item> = view
        .node
        .hardware
        .disks
        .iter()
        .map(|disk| {
            let is_virtio = disk.slot.starts_with("virtio");
            let mut spec = json!({
                "dev_path": disk.device,
                "size": disk.size,
                "pretty_size": pretty(disk.size),
                "io_size": 512,
                "sector_size": if disk.is_cdrom { 2048 } else { 512 },
                "readonly": disk.is_cdrom,
                "cdrom": disk.is_cdrom,
            });
            if !is_virtio {
                spec["model"] = model(disk).trim_start_matches("QEMU ").into();
                spec["modalias"] = "scsi:t-0x00".into();
            }
            spec["bus_path"] = bus_path(disk).into();
            spec["sub_system"] = "/sys/class/block".into();
            let is_virtual = is_virtio || disk.slot.starts_with("scsi");
            spec["transport"] = if is_virtual { "virtio" } else { "sata" }.into();
            spec["rotational"] = true.into();
            Item::new(disk.device.trim_start_matches("/dev/"), spec)
        })
        .collect();
    found.push(Item::new(
        "loop0",
        json!({
            "dev_path": "/dev/loop0", "size": LOOP_SIZE, "pretty_size": pretty(LOOP_SIZE),
            "io_size": 512, "sector_size": 512, "readonly": true, "cdrom": false,
            "bus_path": "/virtual", "sub_system": "/sys/class/block",
        }),
    ));
    found
}

/// As people read sizes: `34 GB`.
pub(super) fn pretty(bytes: u64) -> String {
    const UNITS: [&str; 6] = ["B", "kB", "MB", "GB", "TB", "PB"];
    let mut unit = 0;
    let mut whole = bytes;
    let mut tenths = 0;
    while whole >= 1000 && unit + 1 < UNITS.len() {
        tenths = whole % 1000 / 100;
        whole /= 1000;
        unit += 1;
    }
    if unit == 0 || whole >= 10 {
        format!("{whole} {}", UNITS[unit])
    } else {
        format!("{whole}.{tenths} {}", UNITS[unit])
    }
}

#[cfg(test)]
mod tests {
    use super::pretty;

    #[test]
    fn sizes_are_short() {
        assert_eq!(pretty(34_359_738_368), "34 GB");
        assert_eq!(pretty(1_048_576), "1.0 MB");
        assert_eq!(pretty(512), "512 B");
    }
}
