//! `PUT /nodes/{node}/qemu/{vmid}/resize`: growth of a disk. The task makes all checks.

use talmox_lab_environment::Work;

use super::vmid;
use crate::ApiError;
use crate::call::{Call, Outcome, Reply};
use crate::lock::CALL_LOCK_TIMEOUT;
use crate::pve_state::{Caller, PveState, VolumeId};
use crate::schema;
use crate::storage;
use crate::task::TaskHandle;
use crate::vm::config;
use crate::vm::drive::Drive;
use crate::vm::volume_references::{set_drive, volume_of};

/// Parsed request to resize a disk.
#[derive(Debug)]
struct ResizeRequest {
    caller: Caller,
    node: String,
    vmid: u32,
    disk: String,
    /// Requested size: absolute, or an increment.
    size: Size,
    digest: Option<String>,
    skip_lock: bool,
}

/// Requested disk size in bytes: absolute (`To`), or an increment (`By`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Size {
    To(u64),
    By(u64),
}

impl Size {
    fn parse(text: &str) -> Option<Self> {
        match text.strip_prefix('+') {
            Some(more) => schema::parse_size(more).map(Self::By),
            None => schema::parse_size(text).map(Self::To),
        }
    }
}

pub(super) fn resize(call: &Call) -> Outcome {
    let params = &call.params;
    let skip_lock = params.flag("skiplock").unwrap_or_default();
    if skip_lock && !call.caller.is_root() {
        return Err(ApiError::parameter("skiplock", "Only root may use this option."));
    }
    let size = params.text("size").and_then(Size::parse);
    let resize = ResizeRequest {
        caller: call.caller.clone(),
        node: call.node.clone(),
        vmid: vmid(call),
        disk: params.text("disk").unwrap_or_default().to_owned(),
        size: size.ok_or_else(|| ApiError::failed("internal error"))?,
        digest: params.text("digest").map(str::to_owned),
        skip_lock,
    };
    let id = resize.vmid.to_string();
    let upid = call.site.start(&call.node, "resize", &id, &call.caller, |task| async move {
        resize.run(&task).await.map_err(|error| error.to_string())
    });
    Ok(Reply::upid(upid))
}

impl ResizeRequest {
    async fn run(&self, task: &TaskHandle) -> Result<(), ApiError> {
        let site = &task.site;
        let _guard = site.locks.vm(self.vmid, CALL_LOCK_TIMEOUT).await?;
        let change = self.find_change(&site.pve_state())?;
        let Some((mut drive, volume, bytes)) = change else { return Ok(()) };
        task.wait(Work::Allocate).await.map_err(ApiError::failed)?;
        let mut pve_state = site.pve_state();
        storage::resize(&mut pve_state, &self.node, &volume, bytes)?;
        drive.set_size(bytes);
        set_drive(pve_state.vm_mut(&self.node, self.vmid)?, &drive);
        let is_qcow2 = storage::name_of(&pve_state, &volume)?.format == "qcow2";
        drop(pve_state);
        if is_qcow2 {
            task.log("Image resized.");
        }
        Ok(())
    }

    /// Drive, volume and new size in bytes; `None` if the disk already has the new size.
    fn find_change(
        &self,
        pve_state: &PveState,
    ) -> Result<Option<(Drive, VolumeId, u64)>, ApiError> {
        let disk = &self.disk;
        let vm = pve_state.vm(&self.node, self.vmid)?;
        config::check_digest(vm, self.digest.as_deref())?;
        if !self.skip_lock {
            config::check_lock(vm)?;
        }
        let value = vm.config.get(disk);
        let missing = || ApiError::failed(format!("disk '{disk}' does not exist"));
        let drive = Drive::parse(disk, value.ok_or_else(missing)?).ok_or_else(missing)?;
        let volume = volume_of(&drive)?;
        storage::name_of(pve_state, &volume)?;
        if drive.is_cdrom() {
            return Err(ApiError::failed("you can't resize a cdrom"));
        }
        let path = format!("/storage/{}", volume.storage);
        pve_state.check(&self.caller, &path, &["Datastore.AllocateSpace"])?;
        storage::activate(pve_state, &self.node, &volume)?;
        let info = storage::size_info(pve_state, &self.node, &volume)?;
        let size = info.map(|info| info.size).ok_or_else(|| {
            ApiError::failed(format!("Could not determine current size of volume '{volume}'"))
        })?;
        let wanted = match self.size {
            Size::To(bytes) => bytes,
            Size::By(bytes) => size.saturating_add(bytes),
        };
        if wanted < size {
            return Err(ApiError::failed("shrinking disks is not supported"));
        }
        Ok((wanted > size).then_some((drive, volume, wanted)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_absolute_or_relative() {
        assert_eq!(Size::parse("20G"), Some(Size::To(20 << 30)));
        assert_eq!(Size::parse("+1M"), Some(Size::By(1 << 20)));
        assert_eq!(Size::parse("10.5G"), Some(Size::To(21 << 29)));
        assert_eq!(Size::parse("4096"), Some(Size::To(4096)));
    }
}
