//! Proxmox VE: its API, the rules behind it, and the machines it pretends to have.

mod api;
mod auth;
mod call;
mod digest;
mod gate;
pub(crate) mod guest;
mod ha;
mod http;
pub(crate) mod latency;
mod lock;
mod login;
pub(crate) mod permission;
mod record;
mod refusal;
mod release;
mod sampler;
pub(crate) mod schema;
pub(crate) mod site;
pub(crate) mod storage;
mod task;
pub(crate) mod vm;
pub(crate) mod world;

pub use crate::fault::{Action, Fault, Faults, PathPattern, When};
pub(crate) use auth::{KEY_BYTES, Keys};
pub(crate) use gate::Gate;
pub use http::Patience;
pub(crate) use http::{Server, stopped};
pub use latency::{Profile, Work};
pub(crate) use record::Recorder;
use refusal::Refusal;
pub use release::Release;
pub(crate) use site::Site;
