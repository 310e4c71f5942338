//! Expected identity of a machine, which is compared with the identity that a Talos node reports.

use serde::{Deserialize, Serialize};

/// Expected identity of a machine. A field that is `None` or empty is not compared.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Expected {
    /// SMBIOS UUID.
    pub uuid: Option<String>,
    /// MAC addresses of the network cards of the machine.
    pub macs: Vec<String>,
    /// Instance ID of the cidata volume or cloud-init drive of the machine.
    pub instance_id: Option<String>,
}
