//! Old and new values of changed fields, for display.

use std::fmt;

use serde::{Deserialize, Serialize};
use talmox_pve_types::id::VmId;

use crate::desired::DiskSpec;

/// Value of a changed field, for display and without secrets. Numbers and sizes are numbers in JSON.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum FieldValue {
    /// A vmid, a count, memory in MiB, or a flag of Proxmox (0 or 1).
    Number(u64),
    Disk(DiskValue),
    Text(String),
}

/// A disk of a VM.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DiskValue {
    /// Size of the disk. None if Proxmox does not report a size.
    pub size_gib: Option<u64>,
    pub storage: String,
    /// Further options as Proxmox spells them, such as `discard=on,ssd=1`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub options: String,
}

impl FieldValue {
    /// The value, if it is a text.
    pub fn as_text(&self) -> Option<&str> {
        match self {
            Self::Text(text) => Some(text),
            Self::Number(_) | Self::Disk(_) => None,
        }
    }
}

impl fmt::Display for FieldValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number(number) => number.fmt(f),
            Self::Disk(disk) => disk.fmt(f),
            Self::Text(text) => f.write_str(text),
        }
    }
}

impl fmt::Display for DiskValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(gib) = self.size_gib {
            write!(f, "{gib} GiB ")?;
        }
        write!(f, "on {}", self.storage)?;
        if self.options.is_empty() { Ok(()) } else { write!(f, ", {}", self.options) }
    }
}

impl From<String> for FieldValue {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

impl From<&str> for FieldValue {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl From<u32> for FieldValue {
    fn from(number: u32) -> Self {
        Self::Number(number.into())
    }
}

impl From<u64> for FieldValue {
    fn from(number: u64) -> Self {
        Self::Number(number)
    }
}

impl From<VmId> for FieldValue {
    fn from(vmid: VmId) -> Self {
        vmid.get().into()
    }
}

/// The disk of an inventory, without the options that all disks have.
impl From<&DiskSpec> for FieldValue {
    fn from(disk: &DiskSpec) -> Self {
        Self::Disk(DiskValue {
            size_gib: Some(disk.gib.into()),
            storage: disk.storage.to_string(),
            options: String::new(),
        })
    }
}

impl From<DiskValue> for FieldValue {
    fn from(disk: DiskValue) -> Self {
        Self::Disk(disk)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn numbers_are_numbers_in_json() {
        let disk = |size_gib, options: &str| DiskValue {
            size_gib,
            storage: "local-lvm".to_owned(),
            options: options.to_owned(),
        };
        let cases: [(FieldValue, _, _); 5] = [
            (4_u32.into(), json!(4), "4"),
            (VmId::new(300).unwrap().into(), json!(300), "300"),
            ("300".into(), json!("300"), "300"),
            (
                disk(Some(40), "").into(),
                json!({"size_gib": 40, "storage": "local-lvm"}),
                "40 GiB on local-lvm",
            ),
            (
                disk(None, "ssd=1").into(),
                json!({"size_gib": null, "storage": "local-lvm", "options": "ssd=1"}),
                "on local-lvm, ssd=1",
            ),
        ];
        for (value, form, text) in cases {
            assert_eq!(serde_json::to_value(&value).unwrap(), form);
            assert_eq!(serde_json::from_value::<FieldValue>(form).unwrap(), value);
            assert_eq!(value.to_string(), text);
        }
    }
}
