//! Address of the Talos API of a node.

use talmox_values::Address;

/// Port of the Talos API.
pub const PORT: u16 = 50000;

/// Address of the Talos API of a node. The certificate of the node must contain `host`.
pub fn node_address(host: impl Into<String>) -> Address {
    Address::new(host, PORT)
}

/// Parses `host`, `host:port`, `fd00::1` or `[fd00::1]:port`. The default port is [`PORT`].
pub fn parse_node_address(text: &str) -> Address {
    Address::parse(text, PORT)
}
