//! Identity of a machine, as its hypervisor gave it: what a Talos node reports about itself is compared with it.

use serde::{Deserialize, Serialize};

/// The machine that a call is meant for. A field that is `None` or empty is not compared.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Expected {
    /// The SMBIOS UUID.
    pub uuid: Option<String>,
    /// The MAC addresses of its network cards.
    pub macs: Vec<String>,
    /// The instance id of its cidata volume or cloud-init drive.
    pub instance_id: Option<String>,
}
