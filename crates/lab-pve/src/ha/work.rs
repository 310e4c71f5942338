//! What the manager has done: tasks of root's on the VM's host.

use std::sync::Arc;

use super::place::place;
use crate::Refusal;
use crate::site::Site;
use crate::task::TaskHandle;
use crate::vm::disks::Worker;
use crate::vm::migration::Migration;
use crate::vm::power::{Power, Stop};
use crate::vm::storage_map::StorageMap;
use crate::world::{Caller, ServiceState, World};

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Order {
    Start,
    Stop,
    Move {
        target: String,
        /// Without a break.
        online: bool,
    },
}

/// Begins a task on the host that the VM is on.
pub(super) fn begin(site: &Arc<Site>, vmid: u32, order: Order) {
    let Some(node) = site.world().vms.get(&vmid).map(|vm| vm.node.clone()) else { return };
    let kind = match order {
        Order::Start => "qmstart",
        Order::Stop => "qmshutdown",
        Order::Move { .. } => "qmigrate",
    };
    let root = Caller::parse("root@pam");
    site.start(&node.clone(), kind, &vmid.to_string(), &root, |task| async move {
        let done = carry_out(&task, &node, vmid, &order).await;
        settle(&mut task.site.world(), vmid, &order, done.is_ok());
        done.map_err(|refusal| refusal.to_string())
    });
}

async fn carry_out(task: &TaskHandle, node: &str, vmid: u32, order: &Order) -> Result<(), Refusal> {
    let power = Power {
        worker: Worker::Task(task.clone()),
        caller: Caller::parse("root@pam"),
        node: node.to_owned(),
        vmid,
    };
    let shut_down = Stop { shutdown: true, force: true, ..Stop::default() };
    match order {
        Order::Start => power.start(false, None).await,
        Order::Stop => power.stop(shut_down).await,
        Order::Move { target, online } => {
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

/// A start that failed is tried again, then on another host, then given up. A move that failed
/// leaves the VM where it was.
fn settle(world: &mut World, vmid: u32, order: &Order, succeeded: bool) {
    let sid = format!("vm:{vmid}");
    let limit = |name: &str| {
        let given = world.ha.resources.get(&sid).and_then(|options| options.get(name));
        given.and_then(|given| given.parse::<u32>().ok()).unwrap_or(1)
    };
    let (restarts, relocates) = (limit("max_restart"), limit("max_relocate"));
    let Some(service) = world.ha.services.get_mut(&sid) else { return };
    match order {
        Order::Move { .. } => service.state = ServiceState::Started,
        Order::Start if !succeeded => {
            service.failures += 1;
            if service.failures > restarts + relocates {
                service.state = ServiceState::Error;
            } else if service.failures > restarts {
                let node = service.node.clone();
                if let Some(target) = place(world, &sid, Some(&node)) {
                    super::order_move(world, &sid, &target, false);
                }
            }
        }
        Order::Start | Order::Stop => {}
    }
}
