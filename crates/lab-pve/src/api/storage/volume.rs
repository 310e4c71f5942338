//! `/nodes/{node}/storage/{storage}/content/{volume}`: calls that create, read, change and delete one volume.

use serde_json::{Map, json};
use talmox_lab_environment::Work;

use super::super::reply::{data, flag};
use crate::ApiError;
use crate::call::{Call, Outcome, Reply};
use crate::lock::LockGuard;
use crate::pve_state::{ContentType, StorageKind, TaskState, VolumeId};
use crate::site::Site;
use crate::storage::{self, Allocation, check_access, name_of, path_of, size_info};
use crate::task::TaskHandle;

/// Volume id in the path of a call, which may omit the storage.
fn volume_id(call: &Call) -> Result<VolumeId, ApiError> {
    let storage = call.params.text("storage").unwrap_or_default();
    let volume = call.params.text("volume").unwrap_or_default();
    let Some((named, name)) = volume.split_once(':') else {
        return Ok(VolumeId::new(storage, volume));
    };
    let usual = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    let well_formed = named.len() > 1
        && named.starts_with(|c: char| c.is_ascii_alphabetic())
        && named.ends_with(|c: char| c.is_ascii_alphanumeric())
        && named.chars().all(usual)
        && !name.is_empty();
    if !well_formed {
        let text = format!("unable to parse volume ID '{volume}'\n");
        return Err(ApiError::parameter("volume", text));
    }
    if named != storage {
        let text = format!("storage ID mismatch ({named} != {storage})\n");
        return Err(ApiError::parameter("volume", text));
    }
    Ok(VolumeId::new(storage, name))
}

/// Parses a size in KiB. With the suffix `M` or `G`, the size is in MiB or GiB.
fn kib(size: &str) -> Option<u64> {
    let (number, factor) = match size.as_bytes().last()? {
        b'M' => (&size[..size.len() - 1], 1 << 10),
        b'G' => (&size[..size.len() - 1], 1 << 20),
        _ => (size, 1),
    };
    number.parse::<u64>().ok()?.checked_mul(factor)
}

async fn lock(site: &Site, host: &str, storage: &str, shared: bool) -> Result<LockGuard, ApiError> {
    let guard = site.locks.storage(host, storage, shared).await;
    guard.map_err(|timeout| ApiError::failed(timeout.to_string()))
}

pub(super) async fn allocate(call: Call) -> Outcome {
    let size = call.params.text("size").unwrap_or_default();
    let Some(kib) = kib(size) else {
        return Err(ApiError::parameter("size", format!("unable to parse size '{size}'")));
    };
    let name = call.params.text("filename").unwrap_or_default();
    let requested = call.params.text("format");
    let of_name = name.rsplit_once('.').map(|(_, extension)| extension);
    let of_name = of_name.filter(|format| ["raw", "qcow2", "vmdk"].contains(format));
    if let (Some(requested), Some(format)) = (requested, of_name)
        && requested != format
    {
        let text = format!("different storage formats ({requested} != {format})");
        return Err(ApiError::parameter("format", text));
    }
    let id = call.params.text("storage").unwrap_or_default();
    let vmid = call.params.number("vmid").and_then(|vmid| u32::try_from(vmid).ok());
    let shared = call.pve_state().storage_on(id, &call.node)?.shared;
    let _guard = lock(&call.site, &call.node, id, shared).await?;
    call.site.wait(Work::Allocate, id).await;
    let volume = storage::alloc(
        &mut call.pve_state(),
        &Allocation {
            node: &call.node,
            storage: id,
            vmid: vmid.unwrap_or_default(),
            format: of_name.or(requested),
            name: Some(name).filter(|name| !name.is_empty()),
            kib,
            now: call.now(),
        },
    )?;
    data(volume.to_string())
}

pub(super) fn read(call: &Call) -> Outcome {
    let id = volume_id(call)?;
    let pve_state = call.pve_state();
    check_access(&pve_state, &call.caller, None, &id)?;
    let path = path_of(&pve_state, &id)?;
    let info = size_info(&pve_state, &call.node, &id)?.ok_or_else(|| {
        ApiError::failed(format!("volume_size_info on '{id}' failed - no format"))
    })?;
    if info.size == 0 && info.format != "subvol" {
        return Err(ApiError::failed(format!("volume '{id}' has size zero")));
    }
    let mut entry = Map::new();
    entry.insert("format".into(), json!(info.format));
    entry.insert("path".into(), json!(path));
    entry.insert("size".into(), json!(info.size));
    entry.insert("used".into(), json!(info.used));
    if name_of(&pve_state, &id)?.content == ContentType::Backup
        && let Some(volume) = storage::find(&pve_state, &call.node, &id)?
    {
        entry.insert("notes".into(), json!(volume.notes.as_deref().unwrap_or_default()));
        entry.insert("protected".into(), flag(volume.protected));
    }
    data(entry)
}

/// Answers `PUT …/content/{volume}`. Only backups can have notes and protection.
pub(super) fn update(call: &Call) -> Outcome {
    let id = volume_id(call)?;
    let mut pve_state = call.pve_state();
    check_access(&pve_state, &call.caller, None, &id)?;
    let kind = pve_state.storage(&id.storage)?.kind;
    let name = name_of(&pve_state, &id)?;
    for attribute in ["notes", "protected"] {
        if !call.params.has(attribute) {
            continue;
        }
        if !kind.has_files() || name.content != ContentType::Backup {
            return Err(ApiError::failed(unsupported(kind, attribute)));
        }
        let storage = pve_state.storages.get_mut(&id.storage);
        let volume = storage.and_then(|it| it.volume_mut(&call.node, &name.key(kind)));
        let Some(volume) = volume else { continue };
        match attribute {
            "notes" => {
                let notes = call.params.text("notes").filter(|notes| !notes.is_empty());
                volume.notes = notes.map(str::to_owned);
            }
            _ => volume.protected = call.params.flag("protected") == Some(true),
        }
    }
    Ok(Reply::NULL)
}

fn unsupported(kind: StorageKind, attribute: &str) -> String {
    match (kind, attribute) {
        (kind, "notes") if kind.has_files() => "only backups can have notes".to_owned(),
        (kind, _) if kind.has_files() => format!("only backups support attribute '{attribute}'"),
        (_, "notes") => {
            let plugin = match kind {
                StorageKind::Lvm => "LVMPlugin",
                StorageKind::ZfsPool => "ZFSPoolPlugin",
                _ => "LvmThinPlugin",
            };
            format!(
                "volume notes are not supported for PVE::Storage::{plugin} at \
                 /usr/share/perl5/PVE/Storage/Plugin.pm line 1300."
            )
        }
        _ => format!("attribute '{attribute}' is not supported for storage type '{}'", kind.name()),
    }
}

pub(super) async fn delete(call: Call) -> Outcome {
    let id = volume_id(&call)?;
    let owner = {
        let pve_state = call.pve_state();
        let name = name_of(&pve_state, &id)?;
        let path = format!("/storage/{}", id.storage);
        match (name.content, name.owner) {
            (ContentType::Backup, Some(owner)) => {
                pve_state.check(&call.caller, &path, &["Datastore.AllocateSpace"])?;
                pve_state.check(&call.caller, &format!("/vms/{owner}"), &["VM.Backup"])?;
            }
            _ => pve_state.check(&call.caller, &path, &["Datastore.Allocate"])?,
        }
        name.owner
    };
    let task_id = owner.map_or_else(|| id.storage.clone(), |vmid| format!("{vmid}@{}", id.storage));
    let node = call.node.clone();
    let upid = call.site.start(&call.node, "imgdel", &task_id, &call.caller, |task| async move {
        remove(&task, &node, &id).await.map_err(|error| error.to_string())
    });
    let Some(delay) = call.params.number("delay") else { return Ok(Reply::upid(upid)) };
    // With `delay`, Proxmox waits up to that many seconds for the task. If the task finishes in this time, the answer is its
    // result instead of the UPID.
    for _ in 0..delay {
        call.site.clock.sleep(std::time::Duration::from_secs(1)).await;
        let state = call.pve_state().tasks.get(&upid).map(|task| task.state.clone());
        match state {
            Some(TaskState::Stopped { exit, .. }) if exit == "OK" => return Ok(Reply::NULL),
            Some(TaskState::Stopped { exit, .. }) if exit.starts_with("WARNINGS") => {
                return Ok(Reply::NULL);
            }
            Some(TaskState::Stopped { exit, .. }) => return Err(ApiError::failed(exit)),
            _ => {}
        }
    }
    Ok(Reply::upid(upid))
}

async fn remove(task: &TaskHandle, node: &str, id: &VolumeId) -> Result<(), ApiError> {
    let shared = task.site.pve_state().storage_on(&id.storage, node)?.shared;
    let _guard = lock(&task.site, node, &id.storage, shared).await?;
    task.wait(Work::Allocate).await.map_err(ApiError::failed)?;
    storage::free(&mut task.site.pve_state(), node, id)?;
    task.log(format!("Removed volume '{id}'"));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::kib;

    #[test]
    fn size_parameter_is_parsed_in_kib() {
        assert_eq!(kib("4096"), Some(4096));
        assert_eq!(kib("4M"), Some(4096));
        assert_eq!(kib("1G"), Some(1 << 20));
        assert_eq!((kib(""), kib("99999999999999999999G")), (None, None));
    }
}
