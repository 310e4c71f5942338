//! Expected identity of a machine, which is compared with the identity that a Talos node reports.

use serde::{Deserialize, Serialize};

/// Expected identity of a machine. A field that is `None` or empty is not compared.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Expected {
    /// SMBIOS UUID.
    pub uuid: Option<String>,
    /// MAC addresses of its network cards.
    pub macs: Vec<String>,
    /// Instance ID of its cidata volume or cloud-init drive.
    pub instance_id: Option<String>,
}
