//! `POST …/storage/{storage}/upload`: the task that checks a received file and stores it.

use talmox_lab_environment::Work;

use super::new_file::{CheckedFile, FileTarget, compare};
use crate::ApiError;
use crate::call::{Call, Outcome, Reply, Upload};
use crate::task::TaskHandle;

pub(super) fn answer(call: &Call, file: Option<Upload>) -> Outcome {
    let target = {
        let pve_state = call.pve_state();
        let id = call.params.text("storage").unwrap_or_default();
        let storage = pve_state.storage_on(id, &call.node)?;
        if !storage.kind.has_files() {
            let kind = storage.kind.name();
            return Err(ApiError::failed(format!("can't upload to storage type '{kind}'")));
        }
        if file.is_none() {
            return Err(ApiError::failed("missing temporary file name"));
        }
        let target = FileTarget::of(call, storage)?;
        if !storage.content.contains(&target.content) {
            let content = target.content.name();
            let text = format!("storage '{id}' does not support '{content}' content");
            return Err(ApiError::failed(text));
        }
        // Proxmox copies the file by ssh if another host received it. This fails if the target host is offline.
        if let Some(host) = pve_state.hosts.get(&call.node).filter(|host| !host.online) {
            let command =
                format!("/usr/bin/ssh {} -- /usr/sbin/pvesm status --storage {id}", host.ip);
            return Err(ApiError::failed(format!(
                "can't activate storage '{id}' on node '{}': command '{command}' failed: exit code 255",
                call.node
            )));
        }
        target
    };
    let Some(file) = file else { return Ok(Reply::NULL) };
    let contacted = file.contacted.clone();
    let upid = call.site.start(&contacted, "imgcopy", "", &call.caller, |task| async move {
        let result = store(&task, &target, &file).await;
        if result.is_err() {
            // No volume refers to a rejected file, so the file is deleted.
            std::fs::remove_file(task.site.blobs.path(&file.blob)).ok();
        }
        result
    });
    Ok(Reply::upid(upid))
}

async fn store(task: &TaskHandle, target: &FileTarget, upload: &Upload) -> Result<(), String> {
    let Upload { blob, length, temporary, contacted } = upload;
    task.log(format!("starting file import from: {temporary}"));
    let path = task.site.blobs.path(blob);
    let checked = {
        let (target, temporary) = (target.clone(), temporary.clone());
        tokio::task::spawn_blocking(move || {
            let sum = target.checksum.as_ref().map_or(Ok(Ok(())), |sum| compare(sum, &path))?;
            std::io::Result::Ok((sum, target.check(&path, &temporary)?))
        })
    };
    let (sum, image) = match checked.await {
        Ok(Ok(found)) => found,
        Ok(Err(error)) => return Err(format!("unable to open '{temporary}': {error}")),
        Err(error) => return Err(error.to_string()),
    };
    if target.checksum.is_some() {
        task.log(format!(
            "calculating checksum...{}",
            if sum.is_ok() { "OK, checksum verified" } else { "" }
        ));
    }
    sum?;
    let image = image?;
    let FileTarget { node, path, .. } = target;
    task.log(format!("target node: {node}"));
    task.log(format!("target file: {path}"));
    task.log(format!("file size is: {length}"));
    if contacted == node {
        task.log(format!("command: cp -- {temporary} {path}"));
    } else {
        task.log(format!("command: /usr/bin/scp -p -- {temporary} {node}:{path}"));
    }
    task.wait(Work::Copy { bytes: *length }).await?;
    if !target.has_room(&task.site.pve_state(), *length) {
        let text = format!("cp: error writing '{path}': No space left on device");
        return Err(format!("import failed: {text}"));
    }
    target.put(&task.site, &CheckedFile { blob: blob.clone(), length: *length, image });
    task.log("finished file import successfully");
    Ok(())
}
