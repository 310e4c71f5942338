//! What the calls for a managed VM turn into: tasks that only write down what is wanted.

use std::sync::Arc;

use super::order_move;
use crate::site::Site;
use crate::world::{Caller, Service, ServiceState, World};

/// `status/start` of a managed VM.
pub(crate) fn request_start(site: &Arc<Site>, node: &str, vmid: u32, caller: &Caller) -> String {
    let line = format!("Requesting HA start for VM {vmid}");
    let write = move |world: &mut World| want(world, vmid, "started");
    request(site, node, "hastart", vmid, caller, line, write)
}

/// `status/stop` and `status/shutdown` of a managed VM.
pub(crate) fn request_stop(site: &Arc<Site>, node: &str, vmid: u32, caller: &Caller) -> String {
    let line = format!("Requesting HA stop for VM {vmid}");
    let write = move |world: &mut World| want(world, vmid, "stopped");
    request(site, node, "hastop", vmid, caller, line, write)
}

/// `migrate` of a managed VM.
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
        know(world, vmid);
        order_move(world, &sid, &target, true);
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

fn want(world: &mut World, vmid: u32, state: &str) {
    let options = world.ha.resources.entry(format!("vm:{vmid}")).or_default();
    options.insert("state".to_owned(), state.to_owned());
}

/// A resource that the manager has not looked at yet.
pub(super) fn know(world: &mut World, vmid: u32) {
    let Some(vm) = world.vms.get(&vmid) else { return };
    let state = if vm.is_running() { ServiceState::Started } else { ServiceState::Stopped };
    let service = Service { node: vm.node.clone(), state, failures: 0 };
    world.ha.services.entry(format!("vm:{vmid}")).or_insert(service);
}
