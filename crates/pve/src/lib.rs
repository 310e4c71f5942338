//! Proxmox VE as talmox speaks to it.

pub mod api;
pub mod client;
pub mod config;
pub mod error;
pub mod fingerprint;
pub mod id;
pub mod property;
pub mod request;
pub mod secret;

mod encode;
mod tls;
mod wire;

pub use client::Client;
pub use error::PveError;
pub use request::Request;
pub use secret::Secret;
pub use tls::TrustError;
pub use wire::Unreadable;
