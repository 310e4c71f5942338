//! Options of a VM that the inventory no longer contains: disks, network cards and devices.

use talmox_pve_types::config::{VmConfig, VmOptions};
use talmox_pve_types::property::Drive;

use crate::desired::DesiredNode;
use crate::plan::Class;

/// An option of a VM that the inventory does not contain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct RemovedOption {
    pub(super) key: String,
    pub(super) found: String,
    pub(super) class: Class,
}

/// The options of a VM that an inventory can set but that this inventory does not set. CD drives, and options that no
/// inventory can set, are left to the user.
pub(super) fn removed_options(
    node: &DesiredNode,
    desired: &VmOptions,
    config: &VmConfig,
) -> Vec<RemovedOption> {
    let unwanted = config.iter().filter(|(key, _)| desired.get(key).is_none());
    unwanted
        .filter_map(|(key, found)| {
            let class = class(node, key, found, config)?;
            Some(RemovedOption { key: key.to_owned(), found: found.to_owned(), class })
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
        // The TPM state may hold the keys of encrypted disks.
        "tpmstate" => Some(Class::Destroy),
        _ => None,
    }
}

/// Whether devices of this kind can be plugged into the VM while it runs.
pub(super) fn is_hotplugged(config: &VmConfig, kind: &str) -> bool {
    match config.get("hotplug").map(str::trim) {
        None | Some("1") => true,
        Some(kinds) => kinds.split([',', ';', ' ']).any(|known| known == kind),
    }
}
