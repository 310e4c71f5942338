//! The calls, one file for each part of the tree of paths.

mod access;
mod cluster;
mod dispatch;
mod index;
mod node;
mod pool;
mod qemu;
mod reply;
mod storage;
#[cfg(test)]
pub(super) mod testing;
mod version;

pub(crate) use dispatch::answer;

use crate::Refusal;
use crate::call::Outcome;
use crate::schema::Endpoint;

/// A call that Proxmox has and the lab has not.
fn not_implemented(endpoint: &Endpoint) -> Outcome {
    let (method, path) = (endpoint.method.name(), endpoint.path);
    Err(Refusal::new(501, format!("Method '{method} {path}' not implemented")))
}
