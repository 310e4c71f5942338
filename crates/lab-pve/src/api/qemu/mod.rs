//! Virtual machines: everything below `/nodes/{node}/qemu`.

mod agent;
mod clone;
mod cloudinit;
mod config;
mod create;
mod destroy;
mod feature;
mod inner;
mod list;
mod migrate;
mod move_disk;
mod reassign;
mod resize;
mod sendkey;
mod snapshot;
mod status;
mod template;
mod unlink;

#[cfg(test)]
mod tests;

use crate::call::{Call, Outcome};
use crate::schema::{Endpoint, Method};

pub(super) async fn answer(endpoint: &Endpoint, call: &Call) -> Outcome {
    use Method::{Delete, Get, Post, Put};
    let below = endpoint.path.strip_prefix("/nodes/{node}/qemu").unwrap_or_default();
    match (endpoint.method, below) {
        (Post, "") => create::create(call).await,
        (Get, "/{vmid}/config") => config::get(call),
        (Put, "/{vmid}/config") => config::put(call).await,
        (Post, "/{vmid}/config") => config::post(call).await,
        (Get, "/{vmid}/pending") => config::pending(call),
        (Get, "") => list::all(call),
        (Get, "/{vmid}") => list::index(),
        (Get, "/{vmid}/status") => list::status_index(call),
        (Get, "/{vmid}/status/current") => list::current(call),
        (Post, "/{vmid}/status/start") => status::start(call),
        (Post, "/{vmid}/status/stop") => status::stop(call),
        (Post, "/{vmid}/status/shutdown") => status::shutdown(call),
        (Post, "/{vmid}/status/reboot") => status::reboot(call),
        (Post, "/{vmid}/status/reset") => status::reset(call),
        (Post, "/{vmid}/status/suspend") => status::suspend(call),
        (Post, "/{vmid}/status/resume") => status::resume(call).await,
        (Get, "/{vmid}/agent") => agent::index(),
        (Post, "/{vmid}/agent") => agent::named(call).await,
        (Get, "/{vmid}/cloudinit") => cloudinit::pending(call),
        (Put, "/{vmid}/cloudinit") => cloudinit::update(call).await,
        (Get, "/{vmid}/cloudinit/dump") => cloudinit::dump(call),
        (Put, "/{vmid}/sendkey") => sendkey::press(call).await,
        (Delete, "/{vmid}") => destroy::destroy(call),
        (Put, "/{vmid}/unlink") => unlink::unlink(call).await,
        (Put, "/{vmid}/resize") => resize::resize(call),
        (Post, "/{vmid}/clone") => clone::clone(call),
        (Post, "/{vmid}/template") => template::template(call),
        (Get, "/{vmid}/feature") => feature::get(call),
        (Get, "/{vmid}/snapshot") => snapshot::list(call),
        (Post, "/{vmid}/snapshot") => snapshot::create(call),
        (Get, "/{vmid}/snapshot/{snapname}") => snapshot::index(),
        (Delete, "/{vmid}/snapshot/{snapname}") => snapshot::delete(call),
        (Post, "/{vmid}/snapshot/{snapname}/rollback") => snapshot::rollback(call),
        (Get, "/{vmid}/snapshot/{snapname}/config") => snapshot::get_config(call),
        (Put, "/{vmid}/snapshot/{snapname}/config") => snapshot::put_config(call).await,
        (Post, "/{vmid}/move_disk") => move_disk::move_disk(call),
        (Get, "/{vmid}/migrate") => migrate::get(call),
        (Post, "/{vmid}/migrate") => migrate::post(call),
        (_, path) => match path.strip_prefix("/{vmid}/agent/") {
            Some(command) => agent::run(call, command).await,
            None => super::not_implemented(endpoint),
        },
    }
}

/// The VM that the path names.
fn vmid(call: &Call) -> u32 {
    call.params.number("vmid").and_then(|vmid| u32::try_from(vmid).ok()).unwrap_or_default()
}
