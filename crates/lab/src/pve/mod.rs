//! Proxmox VE: its API, the rules behind it, and the machines it pretends to have.

mod call;
mod digest;
mod guest;
mod latency;
mod lock;
mod permission;
mod refusal;
mod release;
mod schema;
mod site;
pub(crate) mod storage;
mod task;
pub(crate) mod vm;
pub(crate) mod world;

pub use latency::Profile;
use refusal::Refusal;
pub use release::Release;
