//! `/nodes/{node}/qemu`: calls about VMs.

mod agent;
mod clone;
mod cloudinit;
mod config;
mod config_call;
mod create;
mod destroy;
mod feature;
mod migrate;
mod move_disk;
mod power;
mod reassign;
mod resize;
mod sendkey;
mod snapshot;
mod template;
mod unlink;
mod vm_status;

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
        (Get, "") => vm_status::all(call),
        (Get, "/{vmid}") => vm_status::index(),
        (Get, "/{vmid}/status") => vm_status::status_index(call),
        (Get, "/{vmid}/status/current") => vm_status::current(call),
        (Post, "/{vmid}/status/start") => power::start(call),
        (Post, "/{vmid}/status/stop") => power::stop(call),
        (Post, "/{vmid}/status/shutdown") => power::shutdown(call),
        (Post, "/{vmid}/status/reboot") => power::reboot(call),
        (Post, "/{vmid}/status/reset") => power::reset(call),
        (Post, "/{vmid}/status/suspend") => power::suspend(call),
        (Post, "/{vmid}/status/resume") => power::resume(call).await,
        (Get, "/{vmid}/agent") => agent::index(),
        (Post, "/{vmid}/agent") => agent::named(call).await,
        (Get, "/{vmid}/cloudinit") => cloudinit::pending(call),
        (Put, "/{vmid}/cloudinit") => cloudinit::update(call).await,
        (Get, "/{vmid}/cloudinit/dump") => cloudinit::dump(call),
        (Put, "/{vmid}/sendkey") => sendkey::send_key(call).await,
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

/// vmid in the path of a call.
fn vmid(call: &Call) -> u32 {
    call.params.number("vmid").and_then(|vmid| u32::try_from(vmid).ok()).unwrap_or_default()
}
