//! What the manager has done: tasks of root's on the VM's host.

use std::sync::Arc;

use super::place::place;
use crate::pve::latency::Work;
use crate::pve::site::Site;
use crate::pve::task::TaskHandle;
use crate::pve::vm::disks::Worker;
use crate::pve::vm::power::{Power, Stop};
use crate::pve::world::{Caller, ServiceState, World};

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Order {
    Start,
    Stop,
    Move {
        target: String,
        /// Without a break.
        online: bool,
        /// It runs afterwards.
        starts: bool,
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
    let root = Caller { user: "root@pam".to_owned(), token: None };
    site.start(&node, kind, &vmid.to_string(), &root, |task| async move {
        let done = carry_out(&task, vmid, &order).await;
        settle(&mut task.site.world(), vmid, &order, done.is_ok());
        done
    });
}

async fn carry_out(task: &TaskHandle, vmid: u32, order: &Order) -> Result<(), String> {
    match order {
        Order::Start => start(task, vmid).await,
        Order::Stop => stop(task, vmid).await,
        Order::Move { target, online: true, .. } => {
            let memory = 1 << 30;
            task.wait(Work::Migrate { bytes: memory }).await?;
            settle_on(task, vmid, target)
        }
        Order::Move { target, online: false, starts } => {
            stop(task, vmid).await?;
            settle_on(task, vmid, target)?;
            if *starts { start(task, vmid).await } else { Ok(()) }
        }
    }
}

async fn start(task: &TaskHandle, vmid: u32) -> Result<(), String> {
    let started = power(task, vmid)?.start(false, None).await;
    started.map_err(|refusal| refusal.to_string())
}

async fn stop(task: &TaskHandle, vmid: u32) -> Result<(), String> {
    let how = Stop { shutdown: true, force: true, ..Stop::default() };
    let stopped = power(task, vmid)?.stop(how).await;
    stopped.map_err(|refusal| refusal.to_string())
}

/// The VM's power, on the host that it is on now.
fn power(task: &TaskHandle, vmid: u32) -> Result<Power, String> {
    let node = task.site.world().vms.get(&vmid).map(|vm| vm.node.clone());
    let node = node.ok_or_else(|| format!("VM {vmid} does not exist"))?;
    let caller = Caller { user: "root@pam".to_owned(), token: None };
    Ok(Power { worker: Worker::Task(task.clone()), caller, node, vmid })
}

fn settle_on(task: &TaskHandle, vmid: u32, target: &str) -> Result<(), String> {
    let mut world = task.site.world();
    if !world.hosts.get(target).is_some_and(|host| host.online) {
        return Err(format!("no such cluster node '{target}'"));
    }
    let vm = world.vms.get_mut(&vmid).ok_or_else(|| format!("VM {vmid} does not exist"))?;
    target.clone_into(&mut vm.node);
    Ok(())
}

/// A start that failed is tried again, then on another host, then given up.
fn settle(world: &mut World, vmid: u32, order: &Order, succeeded: bool) {
    let sid = format!("vm:{vmid}");
    let limit = |name: &str| {
        let given = world.ha.resources.get(&sid).and_then(|options| options.get(name));
        given.and_then(|given| given.parse::<u32>().ok()).unwrap_or(1)
    };
    let (restarts, relocates) = (limit("max_restart"), limit("max_relocate"));
    let Some(service) = world.ha.services.get_mut(&sid) else { return };
    if let Order::Move { .. } = order {
        service.state = ServiceState::Started;
    }
    if succeeded || *order == Order::Stop {
        return;
    }
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
