//! One round of the HA manager: compares the requested state of each resource with its current state, and starts tasks.

use std::sync::Arc;

use super::host_choice::choose_host;
use super::manager_action::{ManagerAction, start_task};
use super::request::ensure_service;
use super::{is_managed, requested};
use crate::pve_state::{HaServiceState, PveState, TaskState};
use crate::site::Site;

/// Seconds after which the resources of an offline host are fenced.
const FENCE_AFTER: u64 = 60;
/// Seconds after which the resources of an offline host are recovered on another host.
const RECOVER_AFTER: u64 = 120;

/// Checks all hosts and resources, and starts the necessary tasks.
pub(crate) fn round(site: &Arc<Site>) {
    let now = site.now();
    let (lost, actions) = {
        let pve_state = &mut *site.pve_state();
        let (lost, mut actions) = watch_hosts(pve_state, now);
        // Without quorum the manager takes no action.
        if pve_state.is_quorate() {
            actions.extend(watch_resources(pve_state, now));
        }
        actions.retain(|(vmid, _)| !is_busy(pve_state, *vmid));
        (lost, actions)
    };
    for vmid in lost {
        site.guest_power_off(vmid);
    }
    for (vmid, action) in actions {
        start_task(site, vmid, action);
    }
}

/// Stops the guests of hosts that are offline. For hosts that are online again, starts the VMs with `onboot`.
fn watch_hosts(pve_state: &mut PveState, now: u64) -> (Vec<u32>, Vec<(u32, ManagerAction)>) {
    let (mut lost, mut actions) = (vec![], vec![]);
    for (name, host) in &pve_state.hosts {
        let guests = pve_state.vms.iter().filter(|(_, vm)| vm.node == *name);
        if !host.online {
            pve_state.ha.missed.entry(name.clone()).or_insert(now);
            lost.extend(guests.map(|(vmid, _)| *vmid));
        } else if pve_state.ha.missed.remove(name).is_some() {
            let starts = guests
                .filter(|(_, vm)| vm.config.get("onboot").is_some_and(|value| value == "1"))
                .filter(|(_, vm)| !vm.is_running() && !vm.is_template());
            actions.extend(starts.map(|(vmid, _)| (*vmid, ManagerAction::Start)));
        }
    }
    actions.retain(|(vmid, _)| !pve_state.is_ha_managed(*vmid));
    (lost, actions)
}

fn watch_resources(pve_state: &mut PveState, now: u64) -> Vec<(u32, ManagerAction)> {
    let managed: Vec<String> =
        pve_state.ha.resources.keys().filter(|sid| is_managed(pve_state, sid)).cloned().collect();
    pve_state.ha.services.retain(|sid, _| managed.contains(sid));
    let vmids = managed.iter().filter_map(|sid| sid.strip_prefix("vm:")?.parse::<u32>().ok());
    let mut actions = vec![];
    for vmid in vmids {
        ensure_service(pve_state, vmid);
        actions.extend(watch_resource(pve_state, vmid, now).map(|action| (vmid, action)));
    }
    actions
}

/// Updates the state of a resource in the HA manager, and returns the action that the resource needs.
fn watch_resource(pve_state: &mut PveState, vmid: u32, now: u64) -> Option<ManagerAction> {
    let sid = format!("vm:{vmid}");
    let wants_running = requested(pve_state.ha.resources.get(&sid)?) == "started";
    let node = pve_state.vms.get(&vmid)?.node.clone();
    if let Some(since) = pve_state.ha.missed.get(&node).copied() {
        let missed_for = now.saturating_sub(since);
        let target =
            if missed_for >= RECOVER_AFTER { choose_host(pve_state, &sid, None) } else { None };
        let service = pve_state.ha.services.get_mut(&sid)?;
        let Some(target) = target else {
            if missed_for >= FENCE_AFTER {
                service.state = HaServiceState::Fence;
            }
            return None;
        };
        service.node.clone_from(&target);
        service.state = HaServiceState::Stopped;
        pve_state.vms.get_mut(&vmid)?.node = target;
    }
    let vm = pve_state.vms.get(&vmid)?;
    let service = pve_state.ha.services.get_mut(&sid)?;
    service.node.clone_from(&vm.node);
    match &service.state {
        HaServiceState::Error => return None,
        HaServiceState::Migrate { target, online } if *target != vm.node => {
            let online = *online && vm.is_running();
            return Some(ManagerAction::Move { target: target.clone(), online });
        }
        _ => {}
    }
    match (wants_running, vm.is_running()) {
        (true, false) => {
            service.state = HaServiceState::Started;
            Some(ManagerAction::Start)
        }
        (true, true) => {
            (service.state, service.failures) = (HaServiceState::Started, 0);
            None
        }
        (false, true) => Some(ManagerAction::Stop),
        (false, false) => {
            service.state = HaServiceState::Stopped;
            None
        }
    }
}

/// Whether a task of the VM is running.
fn is_busy(pve_state: &PveState, vmid: u32) -> bool {
    let id = vmid.to_string();
    let is_running = |state: &TaskState| matches!(state, TaskState::Running { .. });
    pve_state
        .tasks
        .iter()
        .any(|task| task.id == id && is_running(&task.state) && task.kind.starts_with("qm"))
}
