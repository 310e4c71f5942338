//! Proxmox VE as talmox speaks to it.

pub mod api;
pub mod config;
pub mod error;
pub mod fingerprint;
pub mod id;
pub mod property;
pub mod request;
pub mod secret;

mod encode;
mod wire;

pub use error::PveError;
pub use request::Request;
pub use secret::Secret;
pub use wire::Unreadable;
