//! Data that a node writes to its disk.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::talos_state::Membership;

/// Key of a disk: the host, the volume and the device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DiskKey {
    pub host: String,
    /// Volume id in the hypervisor.
    pub volume: String,
    /// Device name in the guest during this boot, such as `/dev/sda`.
    pub device: String,
}

/// Data that a node wrote to a disk, in addition to the image that the disk was created from. The data belongs to the volume: a
/// full clone gets a copy, and the deletion of the volume deletes the data.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Written {
    /// Installed Talos; `None` while the disk still has the Talos of its image.
    pub(crate) installed: Option<Installed>,
    /// Earlier Talos, which boots if the installed Talos fails to boot or after a rollback.
    pub(crate) previous: Option<Installed>,
    /// Values that were written to META.
    pub(crate) meta: BTreeMap<u8, String>,
    /// STATE partition; `None` before the partition is created and after it is wiped.
    pub(crate) state: Option<SavedState>,
    /// EPHEMERAL partition.
    pub(crate) ephemeral: Option<Ephemeral>,
    /// Labels of the partitions for volumes of a config. Talos finds such a volume by its label, on any disk.
    #[serde(default)]
    pub volumes: Vec<String>,
    /// Whether a reset wiped the disk. Nothing can boot from a wiped disk.
    pub(crate) is_blank: bool,
}

/// Talos that an installer wrote.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Installed {
    pub(crate) version: String,
    pub(crate) schematic: String,
    pub(crate) schematic_id: String,
    /// Platform name: `nocloud` or `metal`.
    pub(crate) platform: String,
    pub(crate) secureboot: bool,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct SavedState {
    /// Machine config; `None` if the partition contains only the addresses from the platform.
    pub(crate) config: Option<String>,
    /// Addresses from the platform. They stay in effect after the cidata volume is removed.
    pub(crate) platform_addresses: Vec<(String, String)>,
    /// Node id generated at the first boot.
    pub(crate) node_id: String,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Ephemeral {
    /// Membership of the etcd member that has its data in `/var/lib/etcd`.
    pub(crate) etcd: Option<Membership>,
    /// Whether the kubelet has its client certificate.
    pub(crate) has_kubelet: bool,
}
