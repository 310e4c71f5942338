//! Decision whether a VM is an owned VM: marker and SMBIOS UUID must both match.

use serde::{Deserialize, Serialize};
use talmox_pve_types::config::VmConfig;

use super::marker::{ClusterMark, Marker, Stage};
use super::smbios_uuid::SmbiosUuid;

/// Identity by which the VM of a node is recognised.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Identity {
    pub cluster: ClusterMark,
    pub node: String,
    pub uuid: SmbiosUuid,
}

/// Owner of a VM.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Owner {
    /// An owned VM of this node.
    Owned(Marker),
    /// A foreign VM: talmox never changes it.
    Foreign {
        /// Why the VM is not an owned VM.
        reason: String,
    },
}

impl Identity {
    /// Decides by its config whether a VM is the owned VM of this node.
    ///
    /// A clone has a UUID that Proxmox chose until the first change, so for a clone marker and name are enough.
    pub fn judge(&self, config: &VmConfig) -> Owner {
        let other = |reason: String| Owner::Foreign { reason };
        let Some(marker) = Marker::find(config.description()) else {
            return other("it does not carry talmox's marker".to_owned());
        };
        if marker.cluster != self.cluster {
            return other(format!("it belongs to another cluster ({})", marker.cluster));
        }
        if marker.node != self.node {
            return other(format!("it is the VM of the node {}", marker.node));
        }
        let found = config.smbios().uuid.unwrap_or_else(|| "none".to_owned());
        let is_same = found == self.uuid.to_string();
        let is_clone = marker.stage == Stage::Clone && config.name() == Some(self.node.as_str());
        if is_same || is_clone {
            return Owner::Owned(marker);
        }
        other(format!("it has the marker of this node, but the UUID {found} and not {}", self.uuid))
    }
}
