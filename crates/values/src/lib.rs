//! Plain values that several crates share: URLs, addresses, MAC addresses and secret texts.
//!
//! Each of them has one type, with one way to read and one way to show it. This crate does no I/O, so that planning
//! can use it; connections are opened by `talmox-net`.

pub mod address;
pub mod mac;
pub mod secret;
pub mod url;

pub use address::Address;
pub use mac::{BadMac, MacAddress};
pub use secret::SecretText;
pub use url::{HttpUrl, UrlError};
