//! Data that a node writes to its disk.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::talos_state::Membership;

/// Key of a disk: its host, volume and device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DiskKey {
    pub host: String,
    /// Volume id in the hypervisor.
    pub volume: String,
    /// Device in the guest during this boot, such as `/dev/sda`.
    pub device: String,
}

/// Data on a disk in addition to the image it was created from. It belongs to the volume: a full clone has a copy,
/// and deleting the volume deletes it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Written {
    /// Installed Talos, if it replaced that of the image.
    pub(crate) installed: Option<Installed>,
    /// Talos that boots if the installed one does not, or after a rollback.
    pub(crate) previous: Option<Installed>,
    /// META values written so far.
    pub(crate) meta: BTreeMap<u8, String>,
    /// STATE partition; none before it is created and after it is wiped.
    pub(crate) state: Option<SavedState>,
    /// EPHEMERAL partition.
    pub(crate) ephemeral: Option<Ephemeral>,
    /// Labels of partitions for volumes of a config. Talos finds such a volume by its label on any disk.
    #[serde(default)]
    pub volumes: Vec<String>,
    /// Whether a reset wiped the disk: nothing boots from it.
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
    /// Machine config; none while only the platform addresses are stored.
    pub(crate) config: Option<String>,
    /// Addresses from the platform, which remain in effect when the cidata volume is removed.
    pub(crate) platform_addresses: Vec<(String, String)>,
    /// Node id generated at the first boot.
    pub(crate) node_id: String,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Ephemeral {
    /// Membership of the etcd member whose data is in `/var/lib/etcd`.
    pub(crate) etcd: Option<Membership>,
    /// Whether the kubelet has its client certificate.
    pub(crate) has_kubelet: bool,
}
