//! Power and migration calls for a VM that HA manages. Their tasks only record the requested state.

use std::sync::Arc;

use super::record_migration_request;
use crate::pve_state::{Caller, HaService, HaServiceState, PveState};
use crate::site::Site;

/// Handles `status/start` of an HA-managed VM. Returns the UPID of the task.
pub(crate) fn request_start(site: &Arc<Site>, node: &str, vmid: u32, caller: &Caller) -> String {
    let line = format!("Requesting HA start for VM {vmid}");
    let write = move |pve_state: &mut PveState| set_requested_state(pve_state, vmid, "started");
    request(site, node, "hastart", vmid, caller, line, write)
}

/// Handles `status/stop` and `status/shutdown` of an HA-managed VM. Returns the UPID of the task.
pub(crate) fn request_stop(site: &Arc<Site>, node: &str, vmid: u32, caller: &Caller) -> String {
    let line = format!("Requesting HA stop for VM {vmid}");
    let write = move |pve_state: &mut PveState| set_requested_state(pve_state, vmid, "stopped");
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
    request(site, node, "hamigrate", vmid, caller, line, move |pve_state| {
        let sid = format!("vm:{vmid}");
        ensure_service(pve_state, vmid);
        record_migration_request(pve_state, &sid, &target, true);
    })
}

fn request(
    site: &Arc<Site>,
    node: &str,
    kind: &str,
    vmid: u32,
    caller: &Caller,
    line: String,
    write: impl FnOnce(&mut PveState) + Send + 'static,
) -> String {
    site.start(node, kind, &vmid.to_string(), caller, |task| async move {
        task.log(line);
        write(&mut task.site.pve_state());
        Ok(())
    })
}

fn set_requested_state(pve_state: &mut PveState, vmid: u32, state: &str) {
    let options = pve_state.ha.resources.entry(format!("vm:{vmid}")).or_default();
    options.insert("state".to_owned(), state.to_owned());
}

/// Adds the state of a resource if the HA manager has not processed the resource yet.
pub(super) fn ensure_service(pve_state: &mut PveState, vmid: u32) {
    let Some(vm) = pve_state.vms.get(&vmid) else { return };
    let state = if vm.is_running() { HaServiceState::Started } else { HaServiceState::Stopped };
    let service = HaService { node: vm.node.clone(), state, failures: 0 };
    pve_state.ha.services.entry(format!("vm:{vmid}")).or_insert(service);
}
