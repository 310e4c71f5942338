//! What a VM has and the inventory has no longer: disks, network cards, devices.

use talmox_pve::config::{VmConfig, VmOptions};
use talmox_pve::property::Drive;

use super::change::Class;
use super::differ::is_hotplugged;
use crate::desired::DesiredNode;

/// An option that the inventory does not ask for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Surplus {
    pub(super) key: String,
    pub(super) found: String,
    pub(super) class: Class,
}

/// All that a VM has too much, of what inventories decide about. What is in CD drives, and options
/// that no inventory knows, are other people's affair.
pub(super) fn surplus(node: &DesiredNode, wanted: &VmOptions, config: &VmConfig) -> Vec<Surplus> {
    let unwanted = config.iter().filter(|(key, _)| wanted.get(key).is_none());
    unwanted
        .filter_map(|(key, found)| {
            let class = class(node, key, found, config)?;
            Some(Surplus { key: key.to_owned(), found: found.to_owned(), class })
        })
        .collect()
}

fn class(node: &DesiredNode, key: &str, found: &str, config: &VmConfig) -> Option<Class> {
    let with_a_stop = if node.is_talos { Class::Drain } else { Class::Reboot };
    match key.trim_end_matches(|c: char| c.is_ascii_digit()) {
        "ide" | "sata" | "scsi" | "virtio" => {
            let is_own = node.vm.cidata.as_ref().is_some_and(|slot| slot.as_str() == key);
            let is_disk = !Drive::parse(found).is_cdrom();
            (is_disk && !is_own).then_some(Class::Destroy)
        }
        "net" if !is_hotplugged(config, "network") => Some(with_a_stop),
        "net" | "ipconfig" | "nameserver" | "searchdomain" => Some(Class::Live),
        "hostpci" => Some(with_a_stop),
        // With it go the keys that disks may be encrypted with.
        "tpmstate" => Some(Class::Destroy),
        _ => None,
    }
}
