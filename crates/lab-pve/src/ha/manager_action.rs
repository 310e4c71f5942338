//! Tasks that the HA manager starts as root on the host of a VM.

use std::sync::Arc;

use super::host_choice::choose_host;
use crate::ApiError;
use crate::pve_state::{Caller, HaServiceState, PveState};
use crate::pve_state_guard;
use crate::site::Site;
use crate::task::TaskHandle;
use crate::vm::disk_creation::Worker;
use crate::vm::migration::Migration;
use crate::vm::power::{Power, StopOptions};
use crate::vm::storage_map::StorageMap;

/// Action of the HA manager on a VM.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum ManagerAction {
    Start,
    Stop,
    Move {
        target: String,
        /// Live migration instead of stop, move and start.
        online: bool,
    },
}

/// Starts the task of an action on the host of the VM.
pub(super) fn start_task(site: &Arc<Site>, vmid: u32, action: ManagerAction) {
    let Some(node) = site.pve_state().vms.get(&vmid).map(|vm| vm.node.clone()) else { return };
    let kind = match action {
        ManagerAction::Start => "qmstart",
        ManagerAction::Stop => "qmshutdown",
        ManagerAction::Move { .. } => "qmigrate",
    };
    let root = Caller::parse("root@pam");
    site.start(&node.clone(), kind, &vmid.to_string(), &root, |task| {
        // Otherwise observers would see these changes as changes by the user root.
        pve_state_guard::made_by_simulation(async move {
            let done = execute(&task, &node, vmid, &action).await;
            update_state(&mut task.site.pve_state(), vmid, &action, done.is_ok());
            done.map_err(|error| error.to_string())
        })
    });
}

async fn execute(
    task: &TaskHandle,
    node: &str,
    vmid: u32,
    action: &ManagerAction,
) -> Result<(), ApiError> {
    let power = Power {
        worker: Worker::Task(task.clone()),
        caller: Caller::parse("root@pam"),
        node: node.to_owned(),
        vmid,
    };
    let shut_down = StopOptions { shutdown: true, force: true, ..StopOptions::default() };
    match action {
        ManagerAction::Start => power.start(false, None).await,
        ManagerAction::Stop => power.stop(shut_down).await,
        ManagerAction::Move { target, online } => {
            if !online {
                power.stop(shut_down).await?;
            }
            let migration = Migration {
                node: node.to_owned(),
                vmid,
                target: target.clone(),
                online: *online,
                with_local_disks: true,
                force: true,
                storages: StorageMap::default(),
            };
            migration.run(task).await
        }
    }
}

/// Updates the state of a resource after a task. A start that failed is retried on the same host, then on another host. After
/// that, the resource is in state `error`. After a failed migration the VM stays on its host.
fn update_state(pve_state: &mut PveState, vmid: u32, action: &ManagerAction, succeeded: bool) {
    let sid = format!("vm:{vmid}");
    let limit = |name: &str| {
        let given = pve_state.ha.resources.get(&sid).and_then(|options| options.get(name));
        given.and_then(|given| given.parse::<u32>().ok()).unwrap_or(1)
    };
    let (restarts, relocates) = (limit("max_restart"), limit("max_relocate"));
    let Some(service) = pve_state.ha.services.get_mut(&sid) else { return };
    match action {
        ManagerAction::Move { .. } => service.state = HaServiceState::Started,
        ManagerAction::Start if !succeeded => {
            service.failures += 1;
            if service.failures > restarts + relocates {
                service.state = HaServiceState::Error;
            } else if service.failures > restarts {
                let node = service.node.clone();
                if let Some(target) = choose_host(pve_state, &sid, Some(&node)) {
                    super::record_migration_request(pve_state, &sid, &target, false);
                }
            }
        }
        ManagerAction::Start | ManagerAction::Stop => {}
    }
}
