//! TCP and TLS connections, for all clients of talmox and for the lab.
//!
//! [`Reach`] maps an address to the address to connect to. [`connect()`] opens connections, and [`tls`] configures TLS.
//! [`authorities`] reads the CAs that verify certificates, and [`ByLeaf`] verifies a server by its own certificate.

pub mod authorities;
pub mod tls;

mod by_leaf;
mod connect;
mod reach;

pub use by_leaf::ByLeaf;
pub use connect::{ConnectError, connect};
pub use reach::Reach;
