//! `/nodes/{node}/qemu/{vmid}/config`: reading and changing the config of a VM.

use std::time::Duration;

use super::vmid;
use crate::ApiError;
use crate::call::{Call, Outcome, Reply};
use crate::pve_state::TaskState;
use crate::vm::config;
use crate::vm::disk_creation::Worker;
use crate::vm::update::ConfigUpdate;

pub(super) fn get(call: &Call) -> Outcome {
    let current = call.params.flag("current").unwrap_or_default();
    let snapshot = call.params.text("snapshot");
    if snapshot.is_some() && current {
        let text = "cannot use 'snapshot' parameter with 'current'";
        let both = ["snapshot", "current"].map(|name| (name.to_owned(), text.to_owned()));
        return Err(ApiError::parameters(both.into()));
    }
    let pve_state = call.pve_state();
    let vm = pve_state.vm(&call.node, vmid(call))?;
    let options = match snapshot {
        Some(name) => {
            let snapshot = vm.snapshots.get(name);
            let missing = || ApiError::failed(format!("snapshot '{name}' does not exist"));
            snapshot.ok_or_else(missing)?.config.clone()
        }
        None if current => vm.config.clone(),
        None => config::merged(vm),
    };
    Ok(Reply::Data(config::shown(call.release, &options, &config::digest(vm))))
}

pub(super) fn pending(call: &Call) -> Outcome {
    let pve_state = call.pve_state();
    let vm = pve_state.vm(&call.node, vmid(call))?;
    Ok(Reply::Data(config::pending_shown(call.release, vm)))
}

/// Answers `PUT …/config`: changes the config before the answer is sent.
pub(super) async fn put(call: &Call) -> Outcome {
    let update = prepared(call)?;
    update.apply(&Worker::Call(call.site.clone())).await?;
    Ok(Reply::NULL)
}

/// Answers `POST …/config`: changes the config in a task.
pub(super) async fn post(call: &Call) -> Outcome {
    let update = prepared(call)?;
    let id = vmid(call).to_string();
    let upid = call.site.start(&call.node, "qmconfig", &id, &call.caller, |task| async move {
        update.apply(&Worker::Task(task)).await.map_err(|error| error.to_string())
    });
    match call.params.number("background_delay").and_then(|delay| u64::try_from(delay).ok()) {
        Some(delay) if delay > 0 => finished_within(call, upid, Duration::from_secs(delay)).await,
        _ => Ok(Reply::upid(upid)),
    }
}

fn prepared(call: &Call) -> Result<ConfigUpdate, ApiError> {
    let mut update = ConfigUpdate::new(call, vmid(call))?;
    update.check(call)?;
    Ok(update)
}

/// Waits for a task. The answer is null if the task finishes within `time`, otherwise the UPID of the task.
async fn finished_within(call: &Call, upid: String, time: Duration) -> Outcome {
    let deadline = call.site.clock.deadline(time);
    loop {
        let state = call.pve_state().tasks.get(&upid).map(|task| task.state.clone());
        match state {
            Some(TaskState::Stopped { exit, .. })
                if exit == "OK" || exit.starts_with("WARNINGS") =>
            {
                return Ok(Reply::NULL);
            }
            Some(TaskState::Stopped { exit, .. }) => {
                let vmid = vmid(call);
                return Err(ApiError::failed(format!("failed to update VM {vmid}: {exit}")));
            }
            _ if deadline.has_passed() => return Ok(Reply::upid(upid)),
            _ => call.site.clock.sleep(Duration::from_millis(50)).await,
        }
    }
}
