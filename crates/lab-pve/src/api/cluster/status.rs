//! `/cluster`: index, status, tasks and the next free vmid.

use std::cmp::Reverse;

use serde_json::{Value as Json, json};

use crate::api::index as names;
use crate::api::node::task;
use crate::api::reply::{data, flag};
use crate::call::{Call, Outcome};
use crate::pve_state::{Task, TaskState};
use crate::{ApiError, Release};

const PARTS: [&str; 19] = [
    "acme",
    "backup",
    "backup-info",
    "ceph",
    "config",
    "firewall",
    "ha",
    "jobs",
    "log",
    "mapping",
    "metrics",
    "nextid",
    "notifications",
    "options",
    "replication",
    "resources",
    "sdn",
    "status",
    "tasks",
];

pub(super) fn index(call: &Call) -> Outcome {
    let added: &[&str] = match call.release {
        Release::V8 => &[],
        Release::V9 => &["bulk-action", "qemu"],
    };
    names::of("name", &[&PARTS, added].concat())
}

/// Answers `GET /cluster/status`. A host that is not in a cluster reports only itself.
pub(super) fn read(call: &Call) -> Outcome {
    let pve_state = call.pve_state();
    let mut entries: Vec<Json> = vec![];
    if let Some(name) = &pve_state.cluster_name {
        entries.push(json!({
            "type": "cluster",
            "id": "cluster",
            "name": name,
            "nodes": pve_state.hosts.len(),
            "version": pve_state.hosts.len(),
            "quorate": flag(pve_state.is_quorate()),
        }));
    }
    let clustered = pve_state.cluster_name.is_some();
    for (nth, (name, host)) in pve_state.hosts.iter().enumerate() {
        entries.push(json!({
            "type": "node",
            "id": format!("node/{name}"),
            "name": name,
            "nodeid": if clustered { nth + 1 } else { 0 },
            "local": flag(*name == call.node),
            "online": flag(host.online),
            "ip": host.ip,
            "level": "",
        }));
    }
    data(entries)
}

/// Answers `GET /cluster/nextid`: the lowest free vmid. With the parameter `vmid`, checks whether that vmid is free. Requires
/// no privilege.
pub(super) fn next_id(call: &Call) -> Outcome {
    let pve_state = call.pve_state();
    if let Some(sent) = call.params.text("vmid") {
        let taken = sent.parse().is_ok_and(|vmid: u32| pve_state.vms.contains_key(&vmid));
        if taken {
            return Err(ApiError::parameter("vmid", format!("VM {sent} already exists")));
        }
        return data(sent);
    }
    let range = pve_state.datacenter.get("next-id").map_or("", String::as_str);
    let bound = |name: &str, default: u32| {
        let parts = range.split(',').filter_map(|part| part.split_once('='));
        let given = parts.filter(|(key, _)| *key == name).find_map(|(_, value)| value.parse().ok());
        given.unwrap_or(default)
    };
    let (lower, upper) = (bound("lower", 100), bound("upper", 1_000_000));
    match (lower..upper).find(|vmid| !pve_state.vms.contains_key(vmid)) {
        Some(vmid) => data(vmid),
        None => Err(ApiError::failed(format!(
            "unable to get any free VMID in range [{lower}, {upper}]"
        ))),
    }
}

/// Answers `GET /cluster/tasks`: running tasks and the latest finished tasks of each host. Without `Sys.Audit`, a user gets
/// only its own tasks. A token without `Sys.Audit` gets no tasks, because Proxmox lists the tasks of a token under its user.
pub(super) fn tasks(call: &Call) -> Outcome {
    const KEPT: usize = 25;
    let pve_state = call.pve_state();
    let audits = pve_state.allowed(&call.caller, "/", &["Sys.Audit"]);
    let caller = call.caller.to_string();
    let mut shown: Vec<&Task> = vec![];
    for node in pve_state.hosts.keys() {
        let mut tasks: Vec<&Task> =
            pve_state.tasks.iter().filter(|task| task.node == *node).collect();
        tasks.sort_by_key(|task| (has_ended(task), Reverse((task.started, task.pid))));
        let running = tasks.iter().filter(|task| !has_ended(task)).count();
        tasks.truncate(running.max(KEPT));
        shown.extend(tasks);
    }
    shown.sort_by_key(|task| Reverse(task.started));
    let entries = shown.into_iter().filter_map(|task| {
        let mut entry = task::decoded(task);
        entry.remove("pstart");
        match &task.state {
            TaskState::Running { .. } => {}
            TaskState::Stopped { exit, ended } => {
                entry.remove("pid");
                entry.insert("endtime".to_owned(), json!(ended));
                entry.insert("status".to_owned(), json!(exit));
                entry.insert("saved".to_owned(), json!("1"));
            }
        }
        let is_own = entry.get("user").and_then(Json::as_str) == Some(&caller);
        (audits || is_own).then_some(Json::Object(entry))
    });
    data(entries.collect::<Vec<Json>>())
}

fn has_ended(task: &Task) -> bool {
    matches!(task.state, TaskState::Stopped { .. })
}
