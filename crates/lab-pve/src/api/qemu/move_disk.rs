//! `POST /nodes/{node}/qemu/{vmid}/move_disk`: moving a disk to another storage or VM.

use std::collections::BTreeMap;

use super::{reassign, vmid};
use crate::call::{Call, Outcome, Reply};
use crate::lock::CALL_LOCK_TIMEOUT;
use crate::pve_state::{ContentType, PveState, Vm, VolumeId};
use crate::storage;
use crate::task::TaskHandle;
use crate::vm::clone_disk::{DiskClone, free, remove_created};
use crate::vm::drive::{self, Drive};
use crate::vm::volume_references::{keep_unused, set_drive, volume_of};
use crate::vm::{config, template_disks};
use crate::{ApiError, Release};

/// Parsed request to move a disk to another storage or format.
#[derive(Debug)]
struct MoveRequest {
    node: String,
    vmid: u32,
    disk: String,
    storage: String,
    format: Option<String>,
    digest: Option<String>,
    /// Delete the source volume instead of keeping it as `unused`.
    delete: bool,
}

pub(super) fn move_disk(call: &Call) -> Outcome {
    let both = |text: &str| {
        let names = ["target-vmid", "storage"];
        let errors = names.map(|name| (name.to_owned(), text.to_owned()));
        Err(ApiError::parameters(BTreeMap::from(errors)))
    };
    match (call.params.text("storage"), call.params.has("target-vmid")) {
        (Some(_), true) => both("either set 'storage' or 'target-vmid', but not both"),
        (None, true) => reassign::reassign(call),
        (Some(storage), false) => to_storage(call, storage),
        (None, false) => both("both 'storage' and 'target-vmid' missing, either needs to be set"),
    }
}

fn to_storage(call: &Call, storage: &str) -> Outcome {
    let text = |name: &str| call.params.text(name).map(str::to_owned);
    let moving = MoveRequest {
        node: call.node.clone(),
        vmid: vmid(call),
        disk: text("disk").unwrap_or_default(),
        storage: storage.to_owned(),
        format: text("format"),
        digest: text("digest"),
        delete: call.params.flag("delete").unwrap_or_default(),
    };
    {
        let pve_state = call.pve_state();
        let path = format!("/storage/{storage}");
        pve_state.check(&call.caller, &path, &["Datastore.AllocateSpace"])?;
        moving.find_disk(&pve_state)?;
    }
    let id = moving.vmid.to_string();
    let upid = call.site.start(&call.node, "qmmove", &id, &call.caller, |task| async move {
        moving.run(&task).await.map_err(|error| error.to_string())
    });
    Ok(Reply::upid(upid))
}

/// Disk to move, with the properties of its VM that the move depends on.
#[derive(Debug)]
struct MovedDisk {
    drive: Drive,
    volume: VolumeId,
    has_snapshots: bool,
    running: bool,
}

impl MoveRequest {
    fn find_disk(&self, pve_state: &PveState) -> Result<MovedDisk, ApiError> {
        let disk = &self.disk;
        let vm = pve_state.vm(&self.node, self.vmid)?;
        config::check_lock(vm)?;
        config::check_digest(vm, self.digest.as_deref())?;
        let missing = || ApiError::failed(format!("disk '{disk}' does not exist"));
        let value = vm.config.get(disk).ok_or_else(missing)?;
        let drive = Drive::parse(disk, value).ok_or_else(missing)?;
        if drive.is_cdrom() && !drive.is_cloudinit() {
            return Err(ApiError::failed("you can't move a cdrom"));
        }
        let volume = volume_of(&drive)?;
        self.check_target(pve_state, &volume)?;
        let has_snapshots = is_in_snapshots(vm, &volume);
        if has_snapshots && self.delete {
            return Err(ApiError::failed(
                "you can't move a disk with snapshots and delete the source",
            ));
        }
        Ok(MovedDisk { drive, volume, has_snapshots, running: vm.is_running() })
    }

    fn check_target(&self, pve_state: &PveState, volume: &VolumeId) -> Result<(), ApiError> {
        let id = &self.storage;
        let format = match pve_state.release {
            // Proxmox VE 8 derives the format only from the suffix of the name. A volume without a suffix has no format.
            Release::V8 => ["raw", "qcow2", "vmdk"]
                .into_iter()
                .find(|format| volume.name.ends_with(&format!(".{format}"))),
            Release::V9 => Some(storage::name_of(pve_state, volume)?.format),
        };
        let same_format = match (&self.format, format) {
            (Some(requested), Some(format)) => requested == format,
            _ => true,
        };
        if volume.storage == *id && same_format {
            return Err(ApiError::failed("you can't move to the same storage with same format"));
        }
        if !pve_state.storage_on(id, &self.node)?.content.contains(&ContentType::Images) {
            let text = format!("storage '{id}' does not support vm images");
            return Err(ApiError::parameter("storage", text));
        }
        Ok(())
    }

    async fn run(&self, task: &TaskHandle) -> Result<(), ApiError> {
        let site = &task.site;
        let _guard = site.locks.vm(self.vmid, CALL_LOCK_TIMEOUT).await?;
        let found = self.find_disk(&site.pve_state())?;
        let volume = &found.volume;
        if site.pve_state().release == Release::V9 {
            task.log(format!(
                "copying volume '{volume}' from current storage '{}' to target storage '{}'",
                volume.storage, self.storage
            ));
        }
        storage::activate(&site.pve_state(), &self.node, volume)?;
        if found.has_snapshots {
            task.log("moving disk with snapshots, snapshots will not be moved!");
        }
        let mut made = vec![];
        if let Err(error) = self.copy(task, &found, &mut made).await {
            remove_created(task, &self.node, &made);
            return Err(ApiError::failed(format!("storage migration failed: {error}")));
        }
        if self.delete {
            task.log(format!("removing source volume '{volume}' after successful copy"));
            if let Err(error) = free(task, &self.node, volume).await {
                task.log(error.to_string());
            }
        }
        Ok(())
    }

    async fn copy(
        &self,
        task: &TaskHandle,
        found: &MovedDisk,
        made: &mut Vec<VolumeId>,
    ) -> Result<(), ApiError> {
        let disk = DiskClone {
            task,
            node: &self.node,
            vmid: self.vmid,
            drive: &found.drive,
            snapshot: None,
            full: true,
            storage: Some(&self.storage),
            format: self.format.as_deref(),
            running: found.running,
        };
        let new = disk.make(made).await?;
        let (is_template, kept) = {
            let mut pve_state = task.site.pve_state();
            let vm = pve_state.vm_mut(&self.node, self.vmid)?;
            set_drive(vm, &new);
            let old = found.volume.to_string();
            let kept = if self.delete { None } else { keep_unused(vm, &old) };
            (vm.is_template(), kept)
        };
        if let Some(key) = kept {
            task.log(format!("adding source volume '{}' as '{key}' to config", found.volume));
        }
        if is_template {
            template_disks::convert(task, &self.node, self.vmid, Some(&self.disk)).await?;
        }
        Ok(())
    }
}

/// Whether a snapshot of the VM contains the volume as a disk.
pub(super) fn is_in_snapshots(vm: &Vm, volume: &VolumeId) -> bool {
    vm.snapshots.values().any(|snapshot| {
        let disks = drive::drives(&snapshot.config);
        disks.iter().any(|disk| !disk.is_cdrom() && disk.file() == volume.to_string())
    })
}
