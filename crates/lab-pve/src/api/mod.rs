//! Implementation of the API calls, one module per top-level path.

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

use crate::ApiError;
use crate::call::Outcome;
use crate::schema::Endpoint;

/// Error of a call that Proxmox supports but the lab does not.
fn not_implemented(endpoint: &Endpoint) -> Outcome {
    let (method, path) = (endpoint.method.name(), endpoint.path);
    Err(ApiError::new(501, format!("Method '{method} {path}' not implemented")))
}
