//! Options of a running VM, and the cost of changing them.
//!
//! Proxmox applies some options to a running VM at once, and keeps the others pending until the VM is stopped. A stopped VM
//! accepts all options at once.

use talmox_pve_types::config::{Drift, VmConfig, VmOptions, drift};
use talmox_pve_types::property::{Drive, Net};

use super::address_change::AddressChange;
use super::removed_option::is_hotplugged;
use crate::desired::DesiredNode;
use crate::plan::Class;

const GROWS: &str = "a disk grows at once, its file system with the next boot";
const MOVES: &str = "talmox does not move disks to another storage: move it in Proxmox (Hardware, Disk Action, Move Storage), or \
     keep its storage in the inventory";
const FIXED: &str = "this drive cannot be changed while it holds a volume: keep its options in the inventory, or replace the node";
const OTHER_UUID: &str = "the UUID identifies the VM, so it is not changed: restore `uuid:` of the node, or replace the node";
const OTHER_SLOT: &str = "the system stays on the disk that it was installed on";

const DEFERRED: &str = "the guest agent and the boot order take effect with the next stop and start of the VM, and talmox does not stop \
     it for them";

/// The way in which an option is changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum OptionChange {
    /// The option is set to this value.
    Set {
        value: String,
        class: Class,
        note: Option<&'static str>,
    },
    /// The disk grows. Its other options are set as well if they differ.
    Grow {
        value: Option<String>,
        class: Class,
        note: &'static str,
    },
    /// The VM must be replaced.
    Replace(Option<&'static str>),
    /// The system disk belongs in another slot, so the VM must be replaced. No other change of the VM is useful before,
    /// because the boot order and the slots of the other disks differ for the same reason.
    OtherSlot(&'static str),
    Impossible(&'static str),
}

impl OptionChange {
    /// The way in which this option of a VM is changed. The class in the result applies to a running VM.
    pub(super) fn of(node: &DesiredNode, drift: &Drift, config: &VmConfig) -> Self {
        let key = drift.key.as_str();
        let family = key.trim_end_matches(|c: char| c.is_ascii_digit());
        let found = drift.found.as_deref();
        if let Some(found) = found.filter(|_| is_drive(family)) {
            return of_drive(node, drift, &Drive::parse(found), config);
        }
        if key == "smbios1" {
            return Self::Impossible(OTHER_UUID);
        }
        let (class, note) = match AddressChange::of_option(key, &drift.desired, found) {
            Some(change) => change.running_class(node),
            None if node.vm.disks[0].slot.as_str() == key => return Self::OtherSlot(OTHER_SLOT),
            None if is_deferred(node, key) => (Class::Live, Some(DEFERRED)),
            None => (class(node, family, drift, config), None),
        };
        match class {
            Class::Replace => Self::Replace(note),
            class => Self::Set { value: drift.desired.clone(), class, note },
        }
    }
}

/// Whether Proxmox keeps a change of the option pending until the VM is stopped, and the change is not worth a stop of its own:
/// nodes work without the guest agent, and the boot order matters only when the VM starts. Systems other than Talos are
/// observed through their guest agent.
pub(super) fn is_deferred(node: &DesiredNode, key: &str) -> bool {
    key == "boot" || key == "agent" && node.is_talos
}

/// The class of a change that needs a stop of the VM. A Kubernetes node is drained before the stop.
pub(super) fn with_a_stop(node: &DesiredNode) -> Class {
    if node.is_talos { Class::Drain } else { Class::Reboot }
}

fn is_drive(family: &str) -> bool {
    matches!(family, "scsi" | "virtio" | "sata" | "ide" | "efidisk" | "tpmstate")
}

/// The class of an option that is neither an address nor an existing drive.
fn class(node: &DesiredNode, family: &str, drift: &Drift, config: &VmConfig) -> Class {
    let plugged = |kind: &str| {
        if is_hotplugged(config, kind) { Class::Live } else { with_a_stop(node) }
    };
    match (family, drift.found.as_deref()) {
        ("net", Some(found)) if !is_same_card(&drift.desired, found) => with_a_stop(node),
        ("net", None) => plugged("network"),
        ("scsi" | "virtio", None) => plugged("disk"),
        (
            "description" | "tags" | "name" | "onboot" | "startup" | "protection" | "hotplug"
            | "nameserver" | "searchdomain" | "net",
            _,
        ) => Class::Live,
        _ => with_a_stop(node),
    }
}

/// The way in which a drive with a volume is changed. The drive may grow and get other options, but it keeps its volume.
fn of_drive(node: &DesiredNode, drift: &Drift, found: &Drive, config: &VmConfig) -> OptionChange {
    let desired = Drive::parse(&drift.desired);
    if desired.storage() != found.storage() {
        return OptionChange::Impossible(MOVES);
    }
    let is_disk = node.vm.disks.iter().any(|disk| disk.slot.as_str() == drift.key);
    if !is_disk || found.volume_id().is_none() {
        return OptionChange::Impossible(FIXED);
    }
    let mut kept = Drive { source: found.source.clone(), options: desired.options.clone() };
    // A missing serial does not count as drift.
    if found.options.get("serial").is_none() {
        let _serial = kept.options.remove("serial");
    }
    let value = has_other_options(&drift.key, &kept, config).then(|| kept.to_string());
    let class = with_a_stop(node);
    let is_larger =
        desired.size().zip(found.size()).is_some_and(|(desired, found)| desired > found);
    match value {
        value if is_larger => OptionChange::Grow { value, class, note: GROWS },
        Some(value) => OptionChange::Set { value, class, note: None },
        None => OptionChange::Impossible(FIXED),
    }
}

/// Whether a drive differs in options other than its size. `kept` has no size, so sizes are not compared.
fn has_other_options(key: &str, kept: &Drive, config: &VmConfig) -> bool {
    !drift(&VmOptions::new().set(key, kept), config).is_empty()
}

/// Whether Proxmox can change the network card while it is plugged in. This works for the bridge, the VLAN and the firewall.
/// Otherwise Proxmox unplugs the card and plugs in another one, and the node loses its addresses.
fn is_same_card(desired: &str, found: &str) -> bool {
    let (desired, found) = (Net::parse(desired), Net::parse(found));
    desired.model == found.model
        && desired.mac == found.mac
        && desired.mtu == found.mtu
        && desired.other.get("queues") == found.other.get("queues")
}
