//! Where a node is reached.

use std::net::IpAddr;

/// Where a node is reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Contact {
    At(IpAddr),
    /// At the address that its guest agent reports.
    AskAgent,
}
