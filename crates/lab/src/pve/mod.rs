//! Proxmox VE: its API, the rules behind it, and the machines it pretends to have.

mod refusal;
mod release;
pub(crate) mod schema;

pub(crate) use refusal::Refusal;
pub use release::Release;
