//! Whether a VM runs, asked in the way that most operations ask it.

use crate::pve::Refusal;
use crate::pve::world::{Vm, World};

/// Whether the VM runs on this host; a VM that is not there is refused in words of its own.
pub(crate) fn is_running_on(world: &World, node: &str, vmid: u32) -> Result<bool, Refusal> {
    let vm = world.vms.get(&vmid).filter(|vm| vm.node == node);
    vm.map(Vm::is_running).ok_or_else(|| {
        Refusal::failed(format!("unable to find configuration file for VM {vmid} on node '{node}'"))
    })
}

/// Whether high availability looks after the VM: then it starts, stops and moves it.
pub(crate) fn is_ha_managed(world: &World, vmid: u32) -> bool {
    let resource = world.ha.resources.get(&format!("vm:{vmid}"));
    resource.is_some_and(|options| options.get("state").is_none_or(|state| state != "ignored"))
}
