//! `DELETE /nodes/{node}/qemu/{vmid}`: destruction of a VM and its volumes.

use std::collections::BTreeSet;

use talmox_lab_environment::Work;

use super::vmid;
use crate::call::{Call, Outcome, Reply};
use crate::ha;
use crate::lock::CALL_LOCK_TIMEOUT;
use crate::pve_state::{Config, PveState, Vm, VolumeId};
use crate::storage;
use crate::task::TaskHandle;
use crate::vm::{clone_disk, config, drive, volume_references};
use crate::{ApiError, Release};

/// Parsed request to destroy a VM.
#[derive(Debug)]
struct DestroyRequest {
    node: String,
    vmid: u32,
    skip_lock: bool,
    /// `purge`: also remove the VM from HA and other cluster-wide configs.
    purge: bool,
    /// `destroy-unreferenced-disks`: also remove volumes that have the vmid of the VM but are not in its config.
    unreferenced: bool,
}

pub(super) fn destroy(call: &Call) -> Outcome {
    let flag = |name: &str| call.params.flag(name).unwrap_or_default();
    let destroy = DestroyRequest {
        node: call.node.clone(),
        vmid: vmid(call),
        skip_lock: flag("skiplock"),
        purge: flag("purge"),
        unreferenced: flag("destroy-unreferenced-disks"),
    };
    if destroy.skip_lock && !call.caller.is_root() {
        return Err(ApiError::parameter("skiplock", "Only root may use this option."));
    }
    destroy.check(&call.pve_state())?;
    let id = destroy.vmid.to_string();
    let upid = call.site.start(&call.node, "qmdestroy", &id, &call.caller, |task| async move {
        destroy.run(&task).await.map_err(|error| error.to_string())
    });
    Ok(Reply::upid(upid))
}

impl DestroyRequest {
    /// Checks of the request. The call makes them, and the task repeats them. Only the task checks the lock of the VM.
    fn check(&self, pve_state: &PveState) -> Result<(), ApiError> {
        let vmid = self.vmid;
        let vm = pve_state.vm(&self.node, vmid)?;
        config::check_protection(vm, &format!("can't remove VM {vmid}"))?;
        if self.is_in_ha(pve_state) && !self.purge {
            return Err(ApiError::failed(format!(
                "unable to remove VM {vmid} - used in HA resources and purge parameter not set."
            )));
        }
        if vm.is_running() {
            return Err(ApiError::failed(format!("VM {vmid} is running - destroy failed")));
        }
        Ok(())
    }

    fn is_in_ha(&self, pve_state: &PveState) -> bool {
        pve_state.ha.resources.contains_key(&format!("vm:{}", self.vmid))
    }

    async fn run(&self, task: &TaskHandle) -> Result<(), ApiError> {
        let site = &task.site;
        let _guard = site.locks.vm(self.vmid, CALL_LOCK_TIMEOUT).await?;
        self.check(&site.pve_state())?;
        let vm = site.pve_state().vm(&self.node, self.vmid)?.clone();
        if !self.skip_lock && vm.lock() != Some("suspended") {
            config::check_lock(&vm)?;
        }
        if vm.is_template() {
            self.check_clones(task, &vm)?;
        }
        // From here on, a failure is only logged, and the VM is removed anyway.
        task.wait(Work::Call).await.map_err(ApiError::failed)?;
        self.remove_volumes(task, &vm).await?;
        let mut pve_state = site.pve_state();
        let locked = Config::from([("lock".to_owned(), "destroyed".to_owned())]);
        let node = self.node.clone();
        pve_state.vms.insert(self.vmid, Vm { node, config: locked, ..Vm::default() });
        self.remove_access(&mut pve_state);
        let was_in_ha = self.is_in_ha(&pve_state);
        if self.purge {
            self.remove_from_ha(&mut pve_state);
        }
        pve_state.vms.remove(&self.vmid);
        drop(pve_state);
        if self.purge {
            task.log(format!("purging VM {} from related configurations..", self.vmid));
            if was_in_ha {
                let vmid = self.vmid;
                task.log(format!("NOTE: removed VM {vmid} from HA resource configuration."));
            }
        }
        Ok(())
    }

    /// Rejects the destruction of a template if linked clones of its base volumes exist.
    fn check_clones(&self, task: &TaskHandle, vm: &Vm) -> Result<(), ApiError> {
        let drives = drive::drives(&vm.config).into_iter().chain(drive::unused(&vm.config));
        for drive in drives.filter(|drive| !drive.is_cdrom()) {
            let Some(volume) = on_storage(drive.file()) else { continue };
            let in_use = storage::is_base_in_use(&task.site.pve_state(), &self.node, &volume);
            match in_use {
                Ok(false) => {}
                Ok(true) => {
                    return Err(ApiError::failed(format!(
                        "base volume '{volume}' is still in use by linked cloned"
                    )));
                }
                Err(error) => self.warn_or_fail(
                    task,
                    error,
                    &format!("failed to check if volume '{volume}' is used by linked clones"),
                )?,
            }
        }
        Ok(())
    }

    /// Logs an error as a warning on Proxmox VE 9. On Proxmox VE 8, the error fails the task.
    fn warn_or_fail(&self, task: &TaskHandle, error: ApiError, what: &str) -> Result<(), ApiError> {
        if task.site.pve_state().release == Release::V8 {
            return Err(error);
        }
        task.warn(&format!("{what}: {error}"));
        Ok(())
    }

    async fn remove_volumes(&self, task: &TaskHandle, vm: &Vm) -> Result<(), ApiError> {
        let saved = vm.snapshots.values().flat_map(|snapshot| {
            volume_references::all(&snapshot.config)
                .into_iter()
                .filter(|drive| drive.key == "vmstate")
        });
        let drives = volume_references::all(&vm.config)
            .into_iter()
            .chain(saved)
            .chain(volume_references::all(&vm.pending))
            .filter(|drive| !drive.is_cdrom() || drive.is_cloudinit());
        let mut seen = BTreeSet::new();
        for drive in drives {
            let Some(volume) = on_storage(drive.file()) else { continue };
            if seen.contains(&volume) {
                continue;
            }
            let owner = storage::name_of(&task.site.pve_state(), &volume).map(|name| name.owner);
            match owner {
                Ok(owner) if owner == Some(self.vmid) => {
                    seen.insert(volume.clone());
                    let freed = clone_disk::free(task, &self.node, &volume).await;
                    self.log_failure(task, freed, |error| {
                        format!("Could not remove disk '{volume}', check manually: {error}")
                    });
                }
                Ok(_) => {}
                Err(error) => {
                    let what = format!("failed to get path and owner of volume '{volume}'");
                    self.warn_or_fail(task, error, &what)?;
                }
            }
        }
        if self.unreferenced {
            let left = storage::volumes_of(&task.site.pve_state(), &self.node, self.vmid);
            for volume in left {
                let freed = clone_disk::free(task, &self.node, &volume).await;
                self.log_failure(task, freed, ApiError::to_string);
            }
        }
        Ok(())
    }

    /// Logs the error of a volume removal. Since Proxmox VE 9, the error also counts as a warning in the exit status of the
    /// task.
    fn log_failure(
        &self,
        task: &TaskHandle,
        done: Result<(), ApiError>,
        text: impl Fn(&ApiError) -> String,
    ) {
        let Err(error) = done else { return };
        let release = task.site.pve_state().release;
        match release {
            Release::V8 => task.log(text(&error)),
            Release::V9 => task.warn(&text(&error)),
        }
    }

    fn remove_access(&self, pve_state: &mut PveState) {
        let path = format!("/vms/{}", self.vmid);
        pve_state.access.acl.retain(|entry| entry.path != path);
        for pool in pve_state.pools.values_mut() {
            pool.vms.remove(&self.vmid);
        }
    }

    fn remove_from_ha(&self, pve_state: &mut PveState) {
        let sid = format!("vm:{}", self.vmid);
        if pve_state.ha.resources.remove(&sid).is_none() || pve_state.release == Release::V8 {
            return;
        }
        ha::remove_from_rules(pve_state, &sid);
    }
}

fn on_storage(file: &str) -> Option<VolumeId> {
    VolumeId::parse(file).filter(|_| !file.starts_with('/'))
}
