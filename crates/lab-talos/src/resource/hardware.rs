//! Hardware resources from SMBIOS and the PCI bus.

use serde_json::json;

use super::proto::{Field, Form};
use super::{Item, ResourceContext, ResourceSource};

const SYSTEM: &[Field] = &[
    ("manufacturer", 1, Form::Text),
    ("productName", 2, Form::Text),
    ("version", 3, Form::Text),
    ("serialnumber", 4, Form::Text),
    ("uuid", 5, Form::Text),
    ("wakeUpType", 6, Form::Text),
];
const PROCESSOR: &[Field] = &[
    ("socket", 1, Form::Text),
    ("manufacturer", 2, Form::Text),
    ("productName", 3, Form::Text),
    ("maxSpeedMhz", 4, Form::Number),
    ("bootSpeedMhz", 5, Form::Number),
    ("status", 6, Form::Number),
    ("coreCount", 10, Form::Number),
    ("coreEnabled", 11, Form::Number),
    ("threadCount", 12, Form::Number),
];

pub(super) const SOURCES: &[ResourceSource] = &[
    ResourceSource { name: "SystemInformations.hardware.talos.dev", proto: SYSTEM, list: system },
    ResourceSource { name: "Processors.hardware.talos.dev", proto: PROCESSOR, list: processors },
    ResourceSource {
        name: "MemoryModules.hardware.talos.dev",
        proto: &[
            ("sizeMiB", 1, Form::Number),
            ("deviceLocator", 2, Form::Text),
            ("manufacturer", 5, Form::Text),
        ],
        list: memory,
    },
    ResourceSource {
        name: "PCIDevices.hardware.talos.dev",
        proto: &[
            ("class_id", 5, Form::Text),
            ("subclass_id", 6, Form::Text),
            ("vendor_id", 7, Form::Text),
            ("product_id", 8, Form::Text),
        ],
        list: devices,
    },
];

fn system(context: &ResourceContext<'_>) -> Vec<Item> {
    let hardware = &context.node.hardware;
    let mut spec = json!({
        "manufacturer": "QEMU",
        "productName": "Standard PC (Q35 + ICH9, 2009)",
        "version": "pc-q35-9.2",
    });
    if !hardware.serial.is_empty() {
        spec["serialnumber"] = hardware.serial.as_str().into();
    }
    spec["uuid"] = hardware.uuid.as_str().into();
    spec["wakeUpType"] = "Power Switch".into();
    vec![Item::new("systeminformation", spec)]
}

/// Processors. QEMU shows all cores as one processor.
fn processors(context: &ResourceContext<'_>) -> Vec<Item> {
    let cores = context.node.hardware.cpus;
    let spec = json!({
        "socket": "CPU 0", "manufacturer": "QEMU", "productName": "pc-q35-9.2",
        "maxSpeedMhz": 2000, "bootSpeedMhz": 2000, "status": 65,
        "coreCount": cores, "coreEnabled": cores, "threadCount": cores,
    });
    vec![Item::new("CPU-0", spec)]
}

/// Memory modules. QEMU shows modules of at most 16 GiB.
fn memory(context: &ResourceContext<'_>) -> Vec<Item> {
    const LARGEST: u64 = 16 << 10;
    let total = context.node.hardware.memory >> 20;
    (0..total.div_ceil(LARGEST))
        .map(|number| {
            let size = LARGEST.min(total - number * LARGEST);
            let name = format!("DIMM {number}");
            let spec = json!({ "sizeMiB": size, "deviceLocator": name, "manufacturer": "QEMU" });
            Item::new(format!("DIMM-{number}"), spec)
        })
        .collect()
}

/// PCI devices that are passed through to the VM.
fn devices(context: &ResourceContext<'_>) -> Vec<Item> {
    let passed = context.node.hardware.pci.iter().enumerate();
    passed
        .map(|(index, device)| {
            let spec = json!({
                "class_id": "0x03", "subclass_id": "0x00",
                "vendor_id": device.vendor, "product_id": device.device,
            });
            Item::new(format!("0000:{:02x}:00.0", index + 1), spec)
        })
        .collect()
}
