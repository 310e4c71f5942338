//! Address at which a node is reached.

use std::net::IpAddr;

use serde::{Deserialize, Serialize};

/// Address at which talmox reaches a node, or the way to find that address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Contact {
    At(IpAddr),
    /// The guest agent of the VM reports the address.
    AskAgent,
}
