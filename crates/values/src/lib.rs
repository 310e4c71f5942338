//! Plain values that several crates share: URLs, addresses, MAC addresses and secret texts.
//!
//! Each kind of value has one type, one parser and one text form. This crate does no I/O, so that planning can use it.
//! `talmox-net` opens connections.

pub mod address;
pub mod mac;
pub mod secret;
pub mod url;

pub use address::Address;
pub use mac::{BadMac, MacAddress};
pub use secret::SecretText;
pub use url::{HttpUrl, UrlError};
