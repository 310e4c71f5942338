//! What a node wrote onto its disk, and finds there again.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::talos_state::Membership;

/// Which disk of which host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DiskKey {
    pub host: String,
    /// As the hypervisor names it.
    pub volume: String,
    /// As the guest names it in this boot: `/dev/sda`.
    pub device: String,
}

/// What is on a disk beside the image it was made of. It goes where the volume goes: a full clone
/// has a copy of it, and with the volume it is gone.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Written {
    /// What boots, where that is no longer the image of the volume.
    pub(crate) installed: Option<Installed>,
    /// What boots if the installed one does not, or after a rollback.
    pub(crate) previous: Option<Installed>,
    /// META, where it was ever written.
    pub(crate) meta: BTreeMap<u8, String>,
    /// The partition STATE; none while it was not made, or after it was wiped.
    pub(crate) state: Option<SavedState>,
    /// The partition EPHEMERAL.
    pub(crate) ephemeral: Option<Ephemeral>,
    /// Labels of partitions for volumes that a config asked for. Talos finds such a volume by its label, wherever it is.
    #[serde(default)]
    pub volumes: Vec<String>,
    /// A reset wiped all of it: nothing boots.
    pub(crate) is_blank: bool,
}

/// A Talos that an installer put there.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Installed {
    pub(crate) version: String,
    pub(crate) schematic: String,
    pub(crate) schematic_id: String,
    /// `nocloud` or `metal`.
    pub(crate) platform: String,
    pub(crate) secureboot: bool,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct SavedState {
    /// The machine config; none while only the network was cached.
    pub(crate) config: Option<String>,
    /// Addresses that the platform gave at some boot: they come back without their drive.
    pub(crate) platform_addresses: Vec<(String, String)>,
    /// Drawn at the first boot.
    pub(crate) node_id: String,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Ephemeral {
    /// The etcd member whose data is in `/var/lib/etcd`.
    pub(crate) etcd: Option<Membership>,
    /// A network plugin was installed here.
    pub(crate) has_kubelet: bool,
}
