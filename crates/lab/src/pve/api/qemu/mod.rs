//! Virtual machines: everything below `/nodes/{node}/qemu`.

mod config;
mod create;

use crate::pve::call::{Call, Outcome};
use crate::pve::schema::{Endpoint, Method};

pub(super) async fn answer(endpoint: &Endpoint, call: &Call) -> Outcome {
    use Method::{Get, Post, Put};
    let below = endpoint.path.strip_prefix("/nodes/{node}/qemu").unwrap_or_default();
    match (endpoint.method, below) {
        (Post, "") => create::create(call).await,
        (Get, "/{vmid}/config") => config::get(call),
        (Put, "/{vmid}/config") => config::put(call).await,
        (Post, "/{vmid}/config") => config::post(call).await,
        (Get, "/{vmid}/pending") => config::pending(call),
        _ => super::not_implemented(endpoint),
    }
}

/// The VM that the path names.
fn vmid(call: &Call) -> u32 {
    call.params.number("vmid").and_then(|vmid| u32::try_from(vmid).ok()).unwrap_or_default()
}
