//! One round of the manager: what is, what should be, and what is to be done about it.

use std::sync::Arc;

use super::place::place;
use super::request::know;
use super::work::{Order, begin};
use super::{is_managed, requested};
use crate::site::Site;
use crate::world::{ServiceState, TaskState, World};

/// How many seconds a host is missed before its resources are held to be down with it.
const FENCE_AFTER: u64 = 60;
/// How many seconds it is missed before they are brought up elsewhere.
const RECOVER_AFTER: u64 = 120;

/// Looks at all hosts and resources, and begins what is to be done.
pub(crate) fn round(site: &Arc<Site>) {
    let now = site.now();
    let (lost, orders) = {
        let world = &mut *site.world();
        let (lost, mut orders) = watch_hosts(world, now);
        // Without a majority nobody may decide anything.
        if world.is_quorate() {
            orders.extend(watch_resources(world, now));
        }
        orders.retain(|(vmid, _)| !is_busy(world, *vmid));
        (lost, orders)
    };
    for vmid in lost {
        site.guest_power_off(vmid);
    }
    for (vmid, order) in orders {
        begin(site, vmid, order);
    }
}

/// Guests go down with their host. When it is back it starts those that are to start with it.
fn watch_hosts(world: &mut World, now: u64) -> (Vec<u32>, Vec<(u32, Order)>) {
    let (mut lost, mut orders) = (vec![], vec![]);
    for (name, host) in &world.hosts {
        let guests = world.vms.iter().filter(|(_, vm)| vm.node == *name);
        if !host.online {
            world.ha.missed.entry(name.clone()).or_insert(now);
            lost.extend(guests.map(|(vmid, _)| *vmid));
        } else if world.ha.missed.remove(name).is_some() {
            let starts = guests
                .filter(|(_, vm)| vm.config.get("onboot").is_some_and(|value| value == "1"))
                .filter(|(_, vm)| !vm.is_running() && !vm.is_template());
            orders.extend(starts.map(|(vmid, _)| (*vmid, Order::Start)));
        }
    }
    orders.retain(|(vmid, _)| !world.is_ha_managed(*vmid));
    (lost, orders)
}

fn watch_resources(world: &mut World, now: u64) -> Vec<(u32, Order)> {
    let managed: Vec<String> =
        world.ha.resources.keys().filter(|sid| is_managed(world, sid)).cloned().collect();
    world.ha.services.retain(|sid, _| managed.contains(sid));
    let vmids = managed.iter().filter_map(|sid| sid.strip_prefix("vm:")?.parse::<u32>().ok());
    let mut orders = vec![];
    for vmid in vmids {
        know(world, vmid);
        orders.extend(watch_resource(world, vmid, now).map(|order| (vmid, order)));
    }
    orders
}

/// Settles what the manager knows of a resource, and what is to be done.
fn watch_resource(world: &mut World, vmid: u32, now: u64) -> Option<Order> {
    let sid = format!("vm:{vmid}");
    let wants_running = requested(world.ha.resources.get(&sid)?) == "started";
    let node = world.vms.get(&vmid)?.node.clone();
    if let Some(since) = world.ha.missed.get(&node).copied() {
        let missed_for = now.saturating_sub(since);
        let target = if missed_for >= RECOVER_AFTER { place(world, &sid, None) } else { None };
        let service = world.ha.services.get_mut(&sid)?;
        let Some(target) = target else {
            if missed_for >= FENCE_AFTER {
                service.state = ServiceState::Fence;
            }
            return None;
        };
        service.node.clone_from(&target);
        service.state = ServiceState::Stopped;
        world.vms.get_mut(&vmid)?.node = target;
    }
    let vm = world.vms.get(&vmid)?;
    let service = world.ha.services.get_mut(&sid)?;
    service.node.clone_from(&vm.node);
    match &service.state {
        ServiceState::Error => return None,
        ServiceState::Migrate { target, online } if *target != vm.node => {
            let online = *online && vm.is_running();
            return Some(Order::Move { target: target.clone(), online });
        }
        _ => {}
    }
    match (wants_running, vm.is_running()) {
        (true, false) => {
            service.state = ServiceState::Started;
            Some(Order::Start)
        }
        (true, true) => {
            (service.state, service.failures) = (ServiceState::Started, 0);
            None
        }
        (false, true) => Some(Order::Stop),
        (false, false) => {
            service.state = ServiceState::Stopped;
            None
        }
    }
}

/// Whether something is being done with the VM already.
fn is_busy(world: &World, vmid: u32) -> bool {
    let id = vmid.to_string();
    let is_running = |state: &TaskState| matches!(state, TaskState::Running { .. });
    world
        .tasks
        .iter()
        .any(|task| task.id == id && is_running(&task.state) && task.kind.starts_with("qm"))
}
