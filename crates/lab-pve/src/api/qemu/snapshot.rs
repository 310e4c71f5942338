//! `/nodes/{node}/qemu/{vmid}/snapshot`: snapshots of a VM.

use serde_json::{Map, Value as Json, json};

use super::vmid;
use crate::call::{Call, Outcome, Reply};
use crate::lock::CALL_LOCK_TIMEOUT;
use crate::pve_state::Snapshot;
use crate::vm::config;
use crate::vm::snapshots::{SnapshotOperation, check_saving_memory};
use crate::{ApiError, Release};

/// Answers `GET …/snapshot`: all snapshots, and at the end the entry `current` for the VM itself.
pub(super) fn list(call: &Call) -> Outcome {
    let pve_state = call.pve_state();
    let vm = pve_state.vm(&call.node, vmid(call))?;
    let mut list: Vec<Json> =
        vm.snapshots.iter().map(|(name, snapshot)| shown(name, snapshot)).collect();
    let mut current = Map::new();
    current.insert("name".to_owned(), json!("current"));
    current.insert("digest".to_owned(), json!(config::digest(vm)));
    current.insert("running".to_owned(), json!(u8::from(vm.is_running())));
    current.insert("description".to_owned(), json!("You are here!"));
    if let Some(parent) = vm.config.get("parent") {
        current.insert("parent".to_owned(), json!(parent));
    }
    list.push(Json::Object(current));
    Ok(Reply::Data(Json::Array(list)))
}

fn shown(name: &str, snapshot: &Snapshot) -> Json {
    let config = &snapshot.config;
    let time = config.get("snaptime").and_then(|time| time.parse::<u64>().ok());
    let mut item = Map::new();
    item.insert("name".to_owned(), json!(name));
    item.insert("snaptime".to_owned(), json!(time.unwrap_or_default()));
    item.insert("vmstate".to_owned(), json!(u8::from(config.contains_key("vmstate"))));
    let description = config.get("description").map_or("", String::as_str);
    item.insert("description".to_owned(), json!(description));
    for key in ["parent", "snapstate"] {
        if let Some(value) = config.get(key) {
            item.insert(key.to_owned(), json!(value));
        }
    }
    Json::Object(item)
}

/// Answers `GET …/snapshot/{snapname}`: index of the calls about a snapshot.
pub(super) fn index() -> Outcome {
    Ok(Reply::Data(json!([{"cmd": "rollback"}, {"cmd": "config"}])))
}

pub(super) fn create(call: &Call) -> Outcome {
    let name = name(call);
    let reserved = if name == "current" {
        Some("current")
    } else if name.eq_ignore_ascii_case("pending") {
        Some("pending")
    } else {
        None
    };
    if let Some(reserved) = reserved {
        return Err(ApiError::failed(format!(
            "unable to use snapshot name '{reserved}' (reserved name)"
        )));
    }
    let (node, vmid) = (call.node.clone(), vmid(call));
    let memory = call.params.flag("vmstate").unwrap_or_default();
    let description = call.params.text("description").map(str::to_owned);
    check_saving_memory(&call.pve_state().vm(&node, vmid)?.config, memory)?;
    let id = vmid.to_string();
    let upid = call.site.start(&call.node, "qmsnapshot", &id, &call.caller, |task| async move {
        let work = SnapshotOperation { task: &task, node: &node, vmid, name: &name };
        let done = work.create(memory, description.as_deref()).await;
        done.map_err(|error| error.to_string())
    });
    Ok(Reply::upid(upid))
}

pub(super) fn delete(call: &Call) -> Outcome {
    let (node, vmid, name) = (call.node.clone(), vmid(call), name(call));
    let force = call.params.flag("force").unwrap_or_default();
    let id = vmid.to_string();
    let start = |task| async move {
        let work = SnapshotOperation { task: &task, node: &node, vmid, name: &name };
        work.delete(force).await.map_err(|error| error.to_string())
    };
    Ok(Reply::upid(call.site.start(&call.node, "qmdelsnapshot", &id, &call.caller, start)))
}

pub(super) fn rollback(call: &Call) -> Outcome {
    let (node, vmid, name) = (call.node.clone(), vmid(call), name(call));
    let caller = call.caller.clone();
    let start = call.params.flag("start").unwrap_or_default();
    if start && call.release == Release::V9 {
        call.pve_state().check(&caller, &format!("/vms/{vmid}"), &["VM.PowerMgmt"])?;
    }
    let id = vmid.to_string();
    let upid = call.site.start(&call.node, "qmrollback", &id, &call.caller, |task| async move {
        let work = SnapshotOperation { task: &task, node: &node, vmid, name: &name };
        let has_memory = work.rollback().await.map_err(|error| error.to_string())?;
        if start || has_memory {
            super::power::autostart(&task, &caller, &node, vmid);
        }
        Ok(())
    });
    Ok(Reply::upid(upid))
}

pub(super) fn get_config(call: &Call) -> Outcome {
    let pve_state = call.pve_state();
    let vm = pve_state.vm(&call.node, vmid(call))?;
    let name = name(call);
    let snapshot = vm.snapshots.get(&name).ok_or_else(|| missing(&name))?;
    let mut shown = config::shown(call.release, &snapshot.config, "");
    if let Json::Object(shown) = &mut shown {
        shown.remove("digest");
    }
    Ok(Reply::Data(shown))
}

/// Answers `PUT …/snapshot/{snapname}/config`, which can change only the description.
pub(super) async fn put_config(call: &Call) -> Outcome {
    let Some(description) = call.params.text("description") else { return Ok(Reply::NULL) };
    let vmid = vmid(call);
    let _guard = call.site.locks.vm(vmid, CALL_LOCK_TIMEOUT).await?;
    let mut pve_state = call.pve_state();
    let vm = pve_state.vm_mut(&call.node, vmid)?;
    config::check_lock(vm)?;
    let name = name(call);
    let snapshot = vm.snapshots.get_mut(&name).ok_or_else(|| missing(&name))?;
    snapshot.config.insert("description".to_owned(), description.to_owned());
    config::normalize(&mut snapshot.config);
    Ok(Reply::NULL)
}

fn name(call: &Call) -> String {
    call.params.text("snapname").unwrap_or_default().to_owned()
}

fn missing(name: &str) -> ApiError {
    ApiError::failed(format!("snapshot '{name}' does not exist"))
}
