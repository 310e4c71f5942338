//! Types of the Proxmox VE API: IDs, VM configs, requests and answers.
//!
//! Nothing here does I/O or waits. The client that sends requests is `talmox-pve`.

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
