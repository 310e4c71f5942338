//! Boot order of a VM.

use super::drive;
use crate::pve_state::Config;
use crate::schema::split_list;

/// Devices in the order of a `boot` option; empty for the legacy form of the option.
pub fn order(boot: Option<&String>) -> Vec<String> {
    let order = boot
        .into_iter()
        .flat_map(|boot| boot.split(','))
        .find_map(|part| part.strip_prefix("order="));
    order
        .map(|order| split_list(order).into_iter().map(str::to_owned).collect())
        .unwrap_or_default()
}

pub(crate) fn print(devices: &[String]) -> String {
    if devices.is_empty() { String::new() } else { format!("order={}", devices.join(";")) }
}

/// Default boot order of a new VM: first disk, first CD drive, first network card.
pub(crate) fn default(config: &Config) -> String {
    let drives = drive::drives(config);
    let is_bootable = |key: &str| !matches!(key, "efidisk0" | "tpmstate0");
    let first = |cdrom: bool| {
        drives.iter().find(|drive| is_bootable(&drive.key) && drive.is_cdrom() == cdrom)
    };
    let mut devices: Vec<String> =
        [first(false), first(true)].into_iter().flatten().map(|drive| drive.key.clone()).collect();
    devices.extend((0..32).map(|n| format!("net{n}")).find(|net| config.contains_key(net)));
    print(&devices)
}
