//! Types of the Proxmox VE API: IDs, VM configs, requests and answers.
//!
//! This crate does no I/O and does not wait. `talmox-pve` is the client that sends the requests.

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
