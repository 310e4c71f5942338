//! TCP and TLS connections, for all clients of talmox and for the lab.
//!
//! [`Reach`] decides which address is connected to, [`connect()`] opens connections, [`tls`] sets TLS up, [`authorities`] reads
//! the authorities that certificates are judged by, and [`ByLeaf`] judges a server by its own certificate.

pub mod authorities;
pub mod tls;

mod by_leaf;
mod connect;
mod reach;

pub use by_leaf::ByLeaf;
pub use connect::{ConnectError, connect};
pub use reach::Reach;
