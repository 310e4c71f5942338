//! Names and numbers of things in Proxmox, each checked once, when it is made.
//!
//! The rules are Proxmox's own, so what a server calls its things always passes. What does not pass
//! would be refused by the server, or, worse, mean something else inside a path.

mod mac;
mod name;
mod number;
mod upid;
mod volume;

pub use mac::MacAddress;
pub use name::{BridgeName, ConfigId, Digest, DiskSlot, FileName, NodeName, PoolId, StorageId};
pub use number::VmId;
pub use upid::Upid;
pub use volume::VolumeId;

/// A text that is not the name or number that it should be.
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
