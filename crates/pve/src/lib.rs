//! Proxmox VE as talmox speaks to it.
//!
//! So far only the way to learn the fingerprint of a Proxmox's certificate before it is trusted.

pub mod fingerprint;
