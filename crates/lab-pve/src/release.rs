use std::fmt;

use serde::{Deserialize, Serialize};

/// Simulated Proxmox VE release.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Default, Serialize, Deserialize)]
pub enum Release {
    #[serde(rename = "8.4")]
    V8,
    #[default]
    #[serde(rename = "9.2")]
    V9,
}

impl Release {
    pub const ALL: [Self; 2] = [Self::V9, Self::V8];

    /// Release in the answer of `/version`.
    pub fn release(self) -> &'static str {
        match self {
            Self::V8 => "8.4",
            Self::V9 => "9.2",
        }
    }

    pub fn version(self) -> &'static str {
        match self {
            Self::V8 => "8.4.21",
            Self::V9 => "9.2.11",
        }
    }

    /// Version of the installed QEMU, as in the `meta` option of new VMs.
    pub fn qemu(self) -> &'static str {
        match self {
            Self::V8 => "9.2.0",
            Self::V9 => "10.1.2",
        }
    }
}

impl fmt::Display for Release {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.release())
    }
}
