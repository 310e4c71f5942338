//! Where a node is reached.

use std::net::IpAddr;

use serde::{Deserialize, Serialize};

/// Where a node is reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Contact {
    At(IpAddr),
    /// At the address that its guest agent reports.
    AskAgent,
}
