use serde_json::{Value as Json, json};

use super::status::host;
use crate::api::reply::data;
use crate::call::{Call, Outcome};
use crate::pve_state::PciDevice;
use crate::schema::split_list;

/// Default of `pci-class-blacklist`: memory controllers, bridges and processors. These devices cannot be passed to a guest.
const HIDDEN: &str = "05;06;0b";

pub(super) fn pci(call: &Call) -> Outcome {
    let pve_state = call.pve_state();
    let host = host(&pve_state, &call.node)?;
    let hidden = call.params.text("pci-class-blacklist").unwrap_or(HIDDEN);
    let hidden = split_list(hidden);
    let verbose = call.params.flag("verbose").unwrap_or(true);
    let class = |device: &PciDevice| device.class.trim_start_matches("0x").to_owned();
    let mut devices: Vec<&PciDevice> = host
        .pci
        .iter()
        .filter(|device| !hidden.iter().any(|hidden| class(device).starts_with(hidden)))
        .collect();
    devices.sort_by(|a, b| a.address.cmp(&b.address));
    data(devices.into_iter().map(|device| shown(device, verbose)).collect::<Vec<Json>>())
}

fn shown(device: &PciDevice, verbose: bool) -> Json {
    let hex = |id: &str| format!("0x{}", id.trim_start_matches("0x"));
    let mut shown = json!({
        "id": device.address,
        "class": hex(&device.class),
        "vendor": hex(&device.vendor),
        "device": hex(&device.device),
        "iommugroup": device.iommu_group,
    });
    if verbose {
        let more = [
            ("vendor_name", device.vendor_name.clone()),
            ("device_name", device.device_name.clone()),
            ("subsystem_vendor", device.subsystem_vendor.as_deref().map(hex)),
            ("subsystem_device", device.subsystem_device.as_deref().map(hex)),
            ("subsystem_vendor_name", device.subsystem_vendor_name.clone()),
            ("subsystem_device_name", device.subsystem_device_name.clone()),
        ];
        for (name, value) in more {
            if let Some(value) = value {
                shown[name] = json!(value);
            }
        }
    }
    shown
}
