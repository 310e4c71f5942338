//! `/nodes/{node}/qemu/{vmid}/cloudinit`: pending options, regeneration and content of the
//! cloud-init drive.

use serde_json::{Map, Value as Json, json};

use super::vmid;
use crate::ApiError;
use crate::call::{Call, Outcome, Reply};
use crate::lock::CALL_LOCK_TIMEOUT;
use crate::pve_state::Config;
use crate::vm::disk_creation::Worker;
use crate::vm::{cloudinit, config};

/// Answers `GET …/cloudinit`: each cloud-init option with its value on the drive. If the value in the config differs, the
/// answer contains it as well. The values on the drive are recorded only while the VM runs.
pub(super) fn pending(call: &Call) -> Outcome {
    let vmid = vmid(call);
    let pve_state = call.pve_state();
    let vm = pve_state.vm(&call.node, vmid)?;
    let now = hidden(cloudinit::options(&vm.config));
    let has_drive = !cloudinit::volumes_of(&vm.config, vmid).is_empty();
    let written = match &vm.run {
        Some(run) if has_drive => cloudinit::options(&run.config),
        _ => cloudinit::options(&vm.config),
    };
    let changed = |key: &String| vm.config.get(key) != written.get(key);
    let written = hidden(written.clone());
    let mut entries = vec![];
    for (key, value) in &now {
        let mut entry = Map::from_iter([("key".to_owned(), json!(key))]);
        match written.get(key) {
            None => {
                entry.insert("pending".to_owned(), json!(value));
            }
            Some(old) => {
                entry.insert("value".to_owned(), json!(old));
                if changed(key) {
                    entry.insert("pending".to_owned(), json!(value));
                }
            }
        }
        entries.push(Json::Object(entry));
    }
    let gone = written.keys().filter(|key| !now.contains_key(*key));
    entries.extend(gone.map(|key| json!({ "key": key, "delete": 1 })));
    Ok(Reply::Data(Json::Array(entries)))
}

fn hidden(mut options: Config) -> Config {
    if let Some(password) = options.get_mut("cipassword") {
        "**********".clone_into(password);
    }
    options
}

/// Answers `PUT …/cloudinit`: regenerates the cloud-init drive.
pub(super) async fn update(call: &Call) -> Outcome {
    let vmid = vmid(call);
    let lock = call.site.locks.vm(vmid, CALL_LOCK_TIMEOUT).await;
    let _guard = lock.map_err(|timeout| ApiError::failed(timeout.to_string()))?;
    config::check_lock(call.pve_state().vm(&call.node, vmid)?)?;
    cloudinit::write_drive(&Worker::Call(call.site.clone()), &call.node, vmid).await?;
    Ok(Reply::NULL)
}

pub(super) fn dump(call: &Call) -> Outcome {
    let vmid = vmid(call);
    let part = call.params.text("type").unwrap_or_default();
    let pve_state = call.pve_state();
    let may_see =
        pve_state.allowed(&call.caller, &format!("/vms/{vmid}"), &["VM.Config.Cloudinit"]);
    let text = cloudinit::dump(&pve_state, &call.node, vmid, part, !may_see)?;
    Ok(Reply::Data(Json::String(text)))
}
