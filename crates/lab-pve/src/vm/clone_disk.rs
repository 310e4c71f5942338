//! Linked or full clone of a single disk.

use talmox_lab_environment::Work;

use super::drive::{self, Drive};
use super::progress;
use super::volume_references::volume_of;
use crate::pve_state::{StorageKind, VolumeId};
use crate::storage::{self, Allocation};
use crate::task::TaskHandle;
use crate::{ApiError, Release};

const CLOUDINIT_BYTES: u64 = 4 << 20;
const TPM_STATE_BYTES: u64 = 4 << 20;
/// Size in bytes of the EFI variables with `efitype=4m`.
const EFI_VARS_4M: u64 = 540_672;
const EFI_VARS_2M: u64 = 131_072;

/// Parameters of a disk clone.
#[derive(Debug)]
pub(crate) struct DiskClone<'a> {
    pub(crate) task: &'a TaskHandle,
    pub(crate) node: &'a str,
    /// VM that receives the new volume.
    pub(crate) vmid: u32,
    pub(crate) drive: &'a Drive,
    /// Snapshot to clone; `None` for the current state.
    pub(crate) snapshot: Option<&'a str>,
    pub(crate) full: bool,
    /// Target storage; `None` for the storage of the source.
    pub(crate) storage: Option<&'a str>,
    pub(crate) format: Option<&'a str>,
    /// Whether a running VM uses the disk.
    pub(crate) running: bool,
}

impl DiskClone<'_> {
    /// Creates the new drive. Adds the new volume to `made` as soon as the volume exists, so that it can be removed if a later
    /// operation fails.
    pub(crate) async fn make(&self, made: &mut Vec<VolumeId>) -> Result<Drive, ApiError> {
        let source = volume_of(self.drive)?;
        if self.is_mirrored() && self.drive.key == "tpmstate0" {
            return Err(ApiError::failed("cannot move TPM state while VM is running"));
        }
        let kind = if self.full { "full" } else { "linked" };
        self.task.log(format!("create {kind} clone of drive {} ({source})", self.drive.key));
        let volume = if self.full {
            self.copy(&source, made).await?
        } else {
            self.link(&source, made).await?
        };
        let mut drive = self.drive.clone();
        drive.remove("format");
        drive.set("file", volume.to_string());
        let size = storage::size_info(&self.task.site.pve_state(), self.node, &volume);
        if let Ok(Some(info)) = size
            && !drive::is_unused(&drive.key)
        {
            drive.set_size(info.size);
        }
        Ok(drive)
    }

    /// Whether QEMU mirrors the disk, because a running VM uses the disk.
    fn is_mirrored(&self) -> bool {
        self.full && self.running && self.snapshot.is_none() && !drive::is_unused(&self.drive.key)
    }

    async fn link(
        &self,
        source: &VolumeId,
        made: &mut Vec<VolumeId>,
    ) -> Result<VolumeId, ApiError> {
        let site = &self.task.site;
        let shared = site.pve_state().storage_on(&source.storage, self.node)?.shared;
        let _guard = site.locks.storage(self.node, &source.storage, shared).await?;
        progress::wait(self.task, Work::Allocate).await?;
        let (snapshot, now) = (self.snapshot, site.now());
        let mut pve_state = site.pve_state();
        let volume =
            storage::clone_image(&mut pve_state, self.node, source, snapshot, self.vmid, now)?;
        made.push(volume.clone());
        Ok(volume)
    }

    async fn copy(
        &self,
        source: &VolumeId,
        made: &mut Vec<VolumeId>,
    ) -> Result<VolumeId, ApiError> {
        let site = &self.task.site;
        let to = self.storage.unwrap_or(&source.storage);
        let format = self.target_format(source, to)?;
        let size = self.size(source)?;
        let volume = {
            let (shared, has_files) = {
                let pve_state = site.pve_state();
                let storage = pve_state.storage_on(to, self.node)?;
                (storage.shared, storage.kind.has_files())
            };
            let _guard = site.locks.storage(self.node, to, shared).await?;
            progress::wait(self.task, Work::Allocate).await?;
            let name = self.drive.is_cloudinit().then(|| {
                let suffix = if has_files { format!(".{format}") } else { String::new() };
                format!("vm-{}-cloudinit{suffix}", self.vmid)
            });
            let new = Allocation {
                node: self.node,
                storage: to,
                vmid: self.vmid,
                format: Some(&format),
                name: name.as_deref(),
                kib: size / 1024,
                now: site.now(),
            };
            storage::alloc(&mut site.pve_state(), &new)?
        };
        made.push(volume.clone());
        if site.pve_state().release == Release::V9 {
            self.task.log(format!("allocated target volume '{volume}'"));
        }
        if !self.drive.is_cloudinit() {
            self.fill(source, &volume, size).await?;
        }
        Ok(volume)
    }

    /// Format of the new volume: the requested format, or else the format of the source. If the storage does not support that
    /// format, the result is the default format of the storage.
    fn target_format(&self, source: &VolumeId, to: &str) -> Result<String, ApiError> {
        let pve_state = self.task.site.pve_state();
        if pve_state.release == Release::V8 && self.drive.key == "tpmstate0" {
            return Ok("raw".to_owned());
        }
        let now = storage::name_of(&pve_state, source)?.format;
        let requested = self.format.unwrap_or(now);
        let format = storage::format_or_default(pve_state.storage(to)?, Some(requested)).to_owned();
        let is_supported = self.format.is_none_or(|requested| requested == format);
        let release = pve_state.release;
        drop(pve_state);
        if !is_supported && release == Release::V9 {
            self.task.log(format!(
                "format '{requested}' is not supported by the target storage '{to}' - using '{format}' \
                 instead"
            ));
        }
        Ok(format)
    }

    /// Size of the new volume in bytes.
    fn size(&self, source: &VolumeId) -> Result<u64, ApiError> {
        if self.drive.is_cloudinit() {
            return Ok(CLOUDINIT_BYTES);
        }
        match self.drive.key.as_str() {
            "efidisk0" if self.drive.get("efitype") == Some("4m") => Ok(EFI_VARS_4M),
            "efidisk0" => Ok(EFI_VARS_2M),
            "tpmstate0" => Ok(TPM_STATE_BYTES),
            _ => {
                let info = storage::size_info(&self.task.site.pve_state(), self.node, source)?;
                Ok(info.map_or(0, |info| info.size))
            }
        }
    }

    async fn fill(&self, source: &VolumeId, to: &VolumeId, size: u64) -> Result<(), ApiError> {
        let site = &self.task.site;
        let used = storage::find(&site.pve_state(), self.node, source)?
            .map_or(0, |volume| volume.used.min(volume.size));
        if self.is_mirrored() {
            progress::mirror(self.task, &self.drive.key, size, used).await?;
        } else if self.drive.key == "efidisk0" {
            progress::wait(self.task, Work::Transfer { bytes: size }).await?;
        } else {
            progress::copy(self.task, size, used).await?;
        }
        storage::copy(&mut site.pve_state(), (self.node, source), self.snapshot, (self.node, to))
    }
}

/// Removes the volumes that a failed operation created. A volume that cannot be removed stays.
pub(crate) fn remove_created(task: &TaskHandle, node: &str, made: &[VolumeId]) {
    for volume in made {
        let freed = storage::free(&mut task.site.pve_state(), node, volume);
        if let Err(error) = freed {
            task.log(error.to_string());
        }
    }
}

/// Removes a volume, and logs the output of the storage tools.
pub(crate) async fn free(task: &TaskHandle, node: &str, volume: &VolumeId) -> Result<(), ApiError> {
    let site = &task.site;
    let (shared, kind) = {
        let pve_state = site.pve_state();
        let storage = pve_state.storage_on(&volume.storage, node)?;
        (storage.shared, storage.kind)
    };
    let _guard = site.locks.storage(node, &volume.storage, shared).await?;
    progress::wait(task, Work::Allocate).await?;
    let was_there = storage::find(&site.pve_state(), node, volume)?.is_some();
    storage::free(&mut site.pve_state(), node, volume)?;
    if was_there && matches!(kind, StorageKind::Lvm | StorageKind::LvmThin) {
        task.log(format!("  Logical volume \"{}\" successfully removed.", volume.name));
    }
    Ok(())
}
