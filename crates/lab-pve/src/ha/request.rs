//! Power and migration calls for a VM that HA manages. Their tasks only record the requested state.

use std::sync::Arc;

use super::record_migration_request;
use crate::site::Site;
use crate::world::{Caller, HaService, HaServiceState, World};

/// Handles `status/start` of an HA-managed VM. Returns the UPID of the task.
pub(crate) fn request_start(site: &Arc<Site>, node: &str, vmid: u32, caller: &Caller) -> String {
    let line = format!("Requesting HA start for VM {vmid}");
    let write = move |world: &mut World| set_requested_state(world, vmid, "started");
    request(site, node, "hastart", vmid, caller, line, write)
}

/// Handles `status/stop` and `status/shutdown` of an HA-managed VM. Returns the UPID of the task.
pub(crate) fn request_stop(site: &Arc<Site>, node: &str, vmid: u32, caller: &Caller) -> String {
    let line = format!("Requesting HA stop for VM {vmid}");
    let write = move |world: &mut World| set_requested_state(world, vmid, "stopped");
    request(site, node, "hastop", vmid, caller, line, write)
}

/// Handles `migrate` of an HA-managed VM. Returns the UPID of the task.
pub(crate) fn request_migrate(
    site: &Arc<Site>,
    node: &str,
    vmid: u32,
    target: &str,
    caller: &Caller,
) -> String {
    let line = format!("Requesting HA migration for VM {vmid} to node {target}");
    let target = target.to_owned();
    request(site, node, "hamigrate", vmid, caller, line, move |world| {
        let sid = format!("vm:{vmid}");
        ensure_service(world, vmid);
        record_migration_request(world, &sid, &target, true);
    })
}

fn request(
    site: &Arc<Site>,
    node: &str,
    kind: &str,
    vmid: u32,
    caller: &Caller,
    line: String,
    write: impl FnOnce(&mut World) + Send + 'static,
) -> String {
    site.start(node, kind, &vmid.to_string(), caller, |task| async move {
        task.log(line);
        write(&mut task.site.world());
        Ok(())
    })
}

fn set_requested_state(world: &mut World, vmid: u32, state: &str) {
    let options = world.ha.resources.entry(format!("vm:{vmid}")).or_default();
    options.insert("state".to_owned(), state.to_owned());
}

/// Adds the state of a resource if the HA manager has not processed the resource yet.
pub(super) fn ensure_service(world: &mut World, vmid: u32) {
    let Some(vm) = world.vms.get(&vmid) else { return };
    let state = if vm.is_running() { HaServiceState::Started } else { HaServiceState::Stopped };
    let service = HaService { node: vm.node.clone(), state, failures: 0 };
    world.ha.services.entry(format!("vm:{vmid}")).or_insert(service);
}
