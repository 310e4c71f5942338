//! `move_disk` with `target-vmid`: reassigning a disk to another VM.

use talmox_lab_environment::Work;

use super::config_call::update_call;
use super::{move_disk, vmid};
use crate::ApiError;
use crate::call::{Call, Outcome, Reply};
use crate::lock::CALL_LOCK_TIMEOUT;
use crate::pve_state::{Caller, PveState, Vm, VolumeId};
use crate::storage::{self, Feature};
use crate::task::TaskHandle;
use crate::vm::disk_creation::Worker;
use crate::vm::drive::{self, Drive};
use crate::vm::update::ConfigUpdate;
use crate::vm::volume_references::volume_of;
use crate::vm::{boot, config};

/// Parsed request to reassign a disk to another VM.
#[derive(Debug)]
struct ReassignRequest {
    caller: Caller,
    node: String,
    vmid: u32,
    disk: String,
    target: u32,
    target_disk: String,
    digest: Option<String>,
    target_digest: Option<String>,
}

pub(super) fn reassign(call: &Call) -> Outcome {
    let text = |name: &str| call.params.text(name).map(str::to_owned);
    let disk = text("disk").unwrap_or_default();
    let target = call.params.number("target-vmid").and_then(|id| u32::try_from(id).ok());
    let moving = ReassignRequest {
        caller: call.caller.clone(),
        node: call.node.clone(),
        vmid: vmid(call),
        target: target.unwrap_or_default(),
        target_disk: text("target-disk").unwrap_or_else(|| disk.clone()),
        disk,
        digest: text("digest"),
        target_digest: text("target-digest"),
    };
    {
        let pve_state = call.pve_state();
        pve_state.check_vm(&call.caller, moving.target, None, &["VM.Config.Disk"])?;
        if moving.vmid == moving.target {
            let text = "must be different than source VMID to reassign disk";
            return Err(ApiError::parameter("target-vmid", text));
        }
        let volume = volume_of(&moving.check(&pve_state)?)?;
        let path = format!("/storage/{}", volume.storage);
        pve_state.check(&call.caller, &path, &["Datastore.AllocateSpace"])?;
    }
    let ReassignRequest { vmid, disk, target, target_disk, .. } = &moving;
    let id = format!("{vmid}-{disk}>{target}-{target_disk}");
    let upid = call.site.start(&call.node, "qmmove", &id, &call.caller, |task| async move {
        moving.run(&task).await.map_err(|error| error.to_string())
    });
    Ok(Reply::upid(upid))
}

impl ReassignRequest {
    /// Checks the request. Returns the drive with the options for the target VM. The drive still has its old volume id.
    fn check(&self, pve_state: &PveState) -> Result<Drive, ApiError> {
        let (vmid, target, disk) = (self.vmid, self.target, &self.disk);
        let find = |id: u32, what: &str| -> Result<&Vm, ApiError> {
            let missing = || ApiError::failed(format!("could not find {what} {id}"));
            pve_state.vms.get(&id).ok_or_else(missing)
        };
        let (from, to) = (find(vmid, "VM")?, find(target, "target VM")?);
        if from.node != to.node {
            return Err(ApiError::failed(format!(
                "Both VMs need to be on the same node ({} != {})",
                from.node, to.node
            )));
        }
        let from = pve_state.vm(&self.node, vmid)?;
        config::check_lock(from)?;
        config::check_lock(to)?;
        if from.is_template() || to.is_template() {
            return Err(ApiError::failed("Can't move disks from or to template VMs"));
        }
        for (id, vm, digest) in [(vmid, from, &self.digest), (target, to, &self.target_digest)] {
            config::check_digest(vm, digest.as_deref())
                .map_err(|error| ApiError::failed(format!("VM {id}: {error}")))?;
        }
        let value = from.config.get(disk).ok_or_else(|| {
            ApiError::failed(format!("Disk '{disk}' for VM '{vmid}' does not exist"))
        })?;
        if to.config.contains_key(&self.target_disk) {
            return Err(ApiError::failed(format!(
                "Target disk key '{}' is already in use for VM '{target}'",
                self.target_disk
            )));
        }
        self.check_drive(pve_state, from, value)
    }

    fn check_drive(&self, pve_state: &PveState, from: &Vm, value: &str) -> Result<Drive, ApiError> {
        let drive = Drive::parse(&self.disk, value)
            .ok_or_else(|| ApiError::failed("failed to parse source disk - "))?;
        let file = drive.file();
        let volume = VolumeId::parse(file).filter(|_| !file.starts_with('/'));
        let rejected = if drive.is_cdrom() && !drive.is_cloudinit() {
            "CD drive contents can't be moved to another VM".to_owned()
        } else if let Some(volume) = volume {
            let can_rename = storage::can(pve_state, &volume, Feature::Rename, None)?;
            if move_disk::is_in_snapshots(from, &volume) {
                "Can't move disk used by a snapshot to another VM".to_owned()
            } else if !can_rename {
                "Storage does not support moving of this disk to another VM".to_owned()
            } else if from.is_running() && !drive::is_unused(&self.disk) {
                "Cannot move disk to another VM while the source VM is running - detach first"
                    .to_owned()
            } else {
                let value = if drive::is_unused(&self.target_disk) { file } else { value };
                return Drive::parse(&self.target_disk, value).ok_or_else(|| {
                    ApiError::failed("failed to parse source disk for target disk format - ")
                });
            }
        } else {
            format!("Volume '{file}' not managed by PVE")
        };
        Err(ApiError::failed(rejected))
    }

    async fn run(&self, task: &TaskHandle) -> Result<(), ApiError> {
        let site = &task.site;
        let _source = site.locks.vm(self.vmid, CALL_LOCK_TIMEOUT).await?;
        let target = site.locks.vm(self.target, CALL_LOCK_TIMEOUT).await?;
        let mut drive = self.check(&site.pve_state())?;
        task.log(format!(
            "reassign disk '{}' from VM '{}' as '{}' to VM '{}'",
            self.disk, self.vmid, self.target_disk, self.target
        ));
        task.wait(Work::Allocate).await.map_err(ApiError::failed)?;
        let renamed = {
            let mut pve_state = site.pve_state();
            let volume = volume_of(&drive)?;
            let renamed = storage::rename(&mut pve_state, &self.node, &volume, self.target)?;
            self.remove_from_source(pve_state.vm_mut(&self.node, self.vmid)?);
            renamed
        };
        task.log(format!("removing disk '{}' from VM '{}' config", self.disk, self.vmid));
        drive.set("file", renamed.to_string());
        if drive::is_unused(&self.target_disk) {
            let mut pve_state = site.pve_state();
            let vm = pve_state.vm_mut(&self.node, self.target)?;
            vm.config.insert(self.target_disk.clone(), drive.print());
            return Ok(());
        }
        // The config update acquires the lock of the target VM again.
        drop(target);
        let options = [(self.target_disk.as_str(), drive.print())];
        let call = update_call(site, &self.caller, &self.node, self.target, &options)?;
        let mut update = ConfigUpdate::new(&call, self.target)?;
        update.check(&call)?;
        update.apply(&Worker::Task(task.clone())).await
    }

    fn remove_from_source(&self, vm: &mut Vm) {
        let mut order = boot::order(vm.config.get("boot"));
        if order.contains(&self.disk) {
            order.retain(|device| *device != self.disk);
            vm.config.insert("boot".to_owned(), boot::print(&order));
        }
        vm.config.remove(&self.disk);
        config::normalize(&mut vm.config);
    }
}
