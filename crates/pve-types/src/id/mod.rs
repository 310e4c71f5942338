//! Names and numbers of Proxmox objects, checked when they are created.
//!
//! The rules are the rules of Proxmox, so every name from a server is valid. Proxmox would reject an invalid name, or,
//! worse, a path with an invalid name would refer to another object.

/// Implements the JSON form of an ID: its text.
macro_rules! json_text {
    ($id:ty) => {
        impl serde::Serialize for $id {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }

        impl<'de> serde::Deserialize<'de> for $id {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let text = <String as serde::Deserialize>::deserialize(deserializer)?;
                text.parse::<Self>().map_err(serde::de::Error::custom)
            }
        }
    };
}

mod name;
mod number;
mod upid;
mod volume;

pub use name::{BridgeName, ConfigId, Digest, DiskSlot, FileName, NodeName, PoolId, StorageId};
pub use number::VmId;
pub use talmox_values::MacAddress;
pub use upid::Upid;
pub use volume::VolumeId;

/// Error for a text that is not a valid name or number.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is not {what}: {rule}")]
pub struct BadId {
    pub text: String,
    pub what: &'static str,
    pub rule: &'static str,
}

impl BadId {
    fn new(text: &str, what: &'static str, rule: &'static str) -> Self {
        Self { text: text.to_owned(), what, rule }
    }
}
