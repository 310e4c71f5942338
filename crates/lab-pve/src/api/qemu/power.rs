//! `POST /nodes/{node}/qemu/{vmid}/status/…`: power calls. Some checks reject the call; other checks fail the task of the call.

use std::time::Duration;

use super::vmid;
use crate::ApiError;
use crate::call::{Call, Outcome, Reply};
use crate::ha;
use crate::lock::CALL_LOCK_TIMEOUT;
use crate::pve_state::{Caller, PveState, TaskState};
use crate::task::TaskHandle;
use crate::vm::disk_creation::Worker;
use crate::vm::power::{Power, StopOptions, is_running};
use crate::vm::suspend;

pub(super) fn start(call: &Call) -> Outcome {
    let root_only = [
        "stateuri",
        "skiplock",
        "migratedfrom",
        "migration_type",
        "migration_network",
        "targetstorage",
        "force-cpu",
        "with-conntrack-state",
        "nets-host-mtu",
    ];
    check_root_only(call, &root_only)?;
    if is_set(call, "targetstorage") && !is_set(call, "migratedfrom") {
        let text = "targetstorage can only by used with migratedfrom.";
        return Err(ApiError::parameter("targetstorage", text));
    }
    let vmid = vmid(call);
    let id = vmid.to_string();
    if call.pve_state().is_ha_managed(vmid) && !is_set(call, "stateuri") {
        return Ok(Reply::upid(ha::request_start(&call.site, &call.node, vmid, &call.caller)));
    }
    let skip_lock = is_set(call, "skiplock");
    let machine = call.params.text("machine").map(str::to_owned);
    let power = power(call);
    let upid = call.site.start(&call.node, "qmstart", &id, &call.caller, |task| async move {
        let started = power(task).start(skip_lock, machine.as_deref()).await;
        started.map_err(|error| error.to_string())
    });
    Ok(Reply::upid(upid))
}

/// Starts a newly created VM in a task of its own.
pub(super) fn autostart(task: &TaskHandle, caller: &Caller, node: &str, vmid: u32) {
    let power = Power {
        worker: Worker::Call(task.site.clone()),
        caller: caller.clone(),
        node: node.to_owned(),
        vmid,
    };
    if task.site.pve_state().is_ha_managed(vmid) {
        ha::request_start(&task.site, node, vmid, caller);
        return;
    }
    task.site.start(node, "qmstart", &vmid.to_string(), caller, |task| async move {
        let power = Power { worker: Worker::Task(task), ..power };
        power.start(false, None).await.map_err(|error| error.to_string())
    });
}

pub(super) fn stop(call: &Call) -> Outcome {
    check_root_only(call, &["skiplock", "keepActive", "migratedfrom"])?;
    let vmid = vmid(call);
    let overrule = is_set(call, "overrule-shutdown");
    if call.pve_state().is_ha_managed(vmid) && !call.params.has("migratedfrom") {
        if overrule {
            let text = "Not applicable for HA resources.";
            return Err(ApiError::parameter("overrule-shutdown", text));
        }
        return Ok(Reply::upid(ha::request_stop(&call.site, &call.node, vmid, &call.caller)));
    }
    let how = StopOptions {
        shutdown: false,
        force: true,
        skip_lock: is_set(call, "skiplock"),
        timeout: timeout(call),
    };
    let (caller, node, power) = (call.caller.clone(), call.node.clone(), power(call));
    let id = vmid.to_string();
    let upid = call.site.start(&call.node, "qmstop", &id, &call.caller, |task| async move {
        if overrule {
            let ended = overrule_shutdowns(&mut task.site.pve_state(), &caller, &node, vmid);
            if !ended.is_empty() {
                task.log(format!("overruled qmshutdown tasks: {}", ended.join(", ")));
            }
        }
        power(task).stop(how).await.map_err(|error| error.to_string())
    });
    Ok(Reply::upid(upid))
}

/// Stops running shutdown tasks of a VM, and returns their UPIDs. A caller with `Sys.Modify` stops all of them, other callers
/// stop only their own.
fn overrule_shutdowns(
    pve_state: &mut PveState,
    caller: &Caller,
    node: &str,
    vmid: u32,
) -> Vec<String> {
    let may_end_all = pve_state.allowed(caller, &format!("/nodes/{node}"), &["Sys.Modify"]);
    let is_own = |owner: &str| {
        let caller = caller.to_string();
        owner == caller || owner.split_once('!').is_some_and(|(user, _)| user == caller)
    };
    let shutdowns: Vec<String> = pve_state
        .tasks
        .iter()
        .filter(|task| matches!(task.state, TaskState::Running { .. }))
        .filter(|task| task.kind == "qmshutdown" && task.id == vmid.to_string())
        .filter(|task| task.node == node && (may_end_all || is_own(&task.owner)))
        .map(crate::pve_state::Task::upid)
        .collect();
    for upid in &shutdowns {
        if let Some(task) = pve_state.tasks.get_mut(upid) {
            task.state = TaskState::Running { interrupted: true };
        }
    }
    shutdowns
}

pub(super) fn shutdown(call: &Call) -> Outcome {
    check_root_only(call, &["skiplock", "keepActive"])?;
    let vmid = vmid(call);
    let force = is_set(call, "forceStop");
    let paused = is_paused(call);
    if paused && !force {
        return Err(ApiError::failed("VM is paused - cannot shutdown"));
    }
    if call.pve_state().is_ha_managed(vmid) {
        return Ok(Reply::upid(ha::request_stop(&call.site, &call.node, vmid, &call.caller)));
    }
    let how = StopOptions {
        shutdown: !paused,
        force,
        skip_lock: is_set(call, "skiplock"),
        timeout: timeout(call),
    };
    let power = power(call);
    let id = vmid.to_string();
    let upid = call.site.start(&call.node, "qmshutdown", &id, &call.caller, |task| async move {
        power(task).stop(how).await.map_err(|error| error.to_string())
    });
    Ok(Reply::upid(upid))
}

pub(super) fn reboot(call: &Call) -> Outcome {
    if is_paused(call) {
        return Err(ApiError::failed("VM is paused - cannot shutdown"));
    }
    check_running(call)?;
    let (timeout, power) = (timeout(call), power(call));
    let id = vmid(call).to_string();
    let upid = call.site.start(&call.node, "qmreboot", &id, &call.caller, |task| async move {
        power(task).reboot(timeout).await.map_err(|error| error.to_string())
    });
    Ok(Reply::upid(upid))
}

pub(super) fn reset(call: &Call) -> Outcome {
    check_root_only(call, &["skiplock"])?;
    check_running(call)?;
    let (skip_lock, power) = (is_set(call, "skiplock"), power(call));
    let id = vmid(call).to_string();
    let upid = call.site.start(&call.node, "qmreset", &id, &call.caller, |task| async move {
        power(task).reset(skip_lock).await.map_err(|error| error.to_string())
    });
    Ok(Reply::upid(upid))
}

pub(super) fn suspend(call: &Call) -> Outcome {
    check_root_only(call, &["skiplock"])?;
    check_running(call)?;
    let (skip_lock, power) = (is_set(call, "skiplock"), power(call));
    let id = vmid(call).to_string();
    if !is_set(call, "todisk") {
        let upid = call.site.start(&call.node, "qmpause", &id, &call.caller, |task| async move {
            power(task).pause(skip_lock).await.map_err(|error| error.to_string())
        });
        return Ok(Reply::upid(upid));
    }
    let storage = state_storage(call)?;
    let (node, vmid) = (call.node.clone(), vmid(call));
    let upid = call.site.start(&call.node, "qmsuspend", &id, &call.caller, |task| async move {
        let worker = Worker::Task(task);
        let suspended = suspend::to_disk(&worker, &node, vmid, &storage, skip_lock).await;
        suspended.map_err(|error| error.to_string())
    });
    Ok(Reply::upid(upid))
}

/// Storage for the memory of a VM that is suspended to disk. Rejects the request if the VM cannot be suspended or the caller
/// lacks a privilege.
fn state_storage(call: &Call) -> Result<String, ApiError> {
    let vmid = vmid(call);
    let pve_state = call.pve_state();
    if pve_state.is_ha_managed(vmid) {
        return Err(ApiError::failed("Cannot suspend HA managed VM to disk"));
    }
    pve_state.check_vm(&call.caller, vmid, None, &["VM.Config.Disk"])?;
    let options = &pve_state.vm(&call.node, vmid)?.config;
    if options.keys().any(|key| key.starts_with("hostpci")) {
        return Err(ApiError::failed(
            "cannot suspend VM to disk due to passed-through PCI device(s), which lack the \
             possibility to save/restore their internal state",
        ));
    }
    let given = call.params.text("statestorage").map(str::to_owned);
    let storage = given.unwrap_or_else(|| suspend::default_storage(&pve_state, options));
    pve_state.check(&call.caller, &format!("/storage/{storage}"), &["Datastore.AllocateSpace"])?;
    Ok(storage)
}

pub(super) async fn resume(call: &Call) -> Outcome {
    check_root_only(call, &["skiplock", "nocheck"])?;
    let vmid = vmid(call);
    // If another operation holds the lock until the timeout, the VM is treated as not suspended.
    let lock = call.site.locks.vm(vmid, CALL_LOCK_TIMEOUT).await;
    let is_suspended = lock.is_ok()
        && call.pve_state().vm(&call.node, vmid).is_ok_and(|vm| vm.lock() == Some("suspended"));
    drop(lock);
    if !is_suspended {
        check_running(call)?;
    }
    let (skip_lock, power) = (is_set(call, "skiplock"), power(call));
    let id = vmid.to_string();
    let upid = call.site.start(&call.node, "qmresume", &id, &call.caller, |task| async move {
        let power = power(task);
        let resumed = if is_suspended {
            power.start(skip_lock, None).await
        } else {
            power.resume(skip_lock).await
        };
        resumed.map_err(|error| error.to_string())
    });
    Ok(Reply::upid(upid))
}

/// Returns a function that creates the `Power` operation of the call for the task that runs it.
fn power(call: &Call) -> impl FnOnce(TaskHandle) -> Power + Send + 'static {
    let (caller, node, vmid) = (call.caller.clone(), call.node.clone(), vmid(call));
    move |task| Power { worker: Worker::Task(task), caller, node, vmid }
}

/// Whether a parameter is present and true (neither empty nor `0`).
fn is_set(call: &Call, name: &str) -> bool {
    call.params.text(name).is_some_and(|value| !matches!(value, "" | "0"))
}

fn check_root_only(call: &Call, names: &[&str]) -> Result<(), ApiError> {
    match names.iter().find(|name| is_set(call, name)) {
        Some(name) if !call.caller.is_root() => {
            Err(ApiError::parameter(*name, "Only root may use this option."))
        }
        _ => Ok(()),
    }
}

fn timeout(call: &Call) -> Option<Duration> {
    let seconds = call.params.number("timeout")?;
    u64::try_from(seconds).ok().map(Duration::from_secs)
}

fn check_running(call: &Call) -> Result<(), ApiError> {
    let vmid = vmid(call);
    if is_running(&call.pve_state(), &call.node, vmid)? {
        return Ok(());
    }
    Err(ApiError::failed(format!("VM {vmid} not running")))
}

/// Whether the VM exists on this host and is paused.
fn is_paused(call: &Call) -> bool {
    let pve_state = call.pve_state();
    let run = pve_state.vm(&call.node, vmid(call)).ok().and_then(|vm| vm.run.as_ref());
    run.is_some_and(|run| run.paused)
}
