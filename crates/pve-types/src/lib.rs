//! Proxmox VE as plain values: ids, VM configs, requests and the reading of answers.
//!
//! Nothing here opens a socket or waits. The client that sends requests is `talmox-pve`.

pub mod api;
pub mod config;
pub mod encode;
pub mod fingerprint;
pub mod id;
pub mod property;
pub mod request;
pub mod secret_parameter;
pub mod wire;

pub use request::Request;
pub use talmox_values::SecretText;
