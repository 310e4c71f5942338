//! Addresses of the Talos API of nodes.

use talmox_values::Address;

/// The port of the Talos API.
pub const PORT: u16 = 50000;

/// The address of the Talos API of a node. The host is also the name that its certificate must have.
pub fn node_address(host: impl Into<String>) -> Address {
    Address::new(host, PORT)
}

/// Reads `host`, `host:port`, `fd00::1` or `[fd00::1]:port`; without a port it is that of the Talos API.
pub fn parse_node_address(text: &str) -> Address {
    Address::parse(text, PORT)
}
