//! Migration of a stopped or running VM with its local disks.

use std::collections::BTreeMap;

use talmox_lab_environment::Work;

use super::local_resources::LocalResources;
use super::local_volumes::{self, LocalVolume, VolumeRole};
use super::storage_map::StorageMap;
use super::volume_references::volume_of;
use super::{config, drive, memory, progress, timestamp, volume_references};
use crate::ApiError;
use crate::lock::CALL_LOCK_TIMEOUT;
use crate::pve_state::{PveState, Vm, VolumeId};
use crate::storage;
use crate::task::TaskHandle;

/// Parameters of a migration.
#[derive(Debug)]
pub(crate) struct Migration {
    pub(crate) node: String,
    pub(crate) vmid: u32,
    pub(crate) target: String,
    /// Whether a running VM is migrated live.
    pub(crate) online: bool,
    pub(crate) with_local_disks: bool,
    /// `force`: migrate even if the VM uses local devices.
    pub(crate) force: bool,
    pub(crate) storages: StorageMap,
}

/// Reason why a migration did not fully succeed.
enum MigrationFailure {
    /// The migration failed, and the VM is still on its host.
    Aborted(ApiError),
    /// The VM was moved, but an error occurred afterwards.
    Problems,
}

impl Migration {
    pub(crate) async fn run(&self, task: &TaskHandle) -> Result<(), ApiError> {
        let began = task.site.now();
        let done = self.migrate(task).await;
        let duration = timestamp::duration(task.site.now() - began);
        match done {
            Ok(()) => {
                info(task, &format!("migration finished successfully (duration {duration})"));
                Ok(())
            }
            Err(MigrationFailure::Aborted(api_error)) => {
                error(task, &format!("migration aborted (duration {duration}): {api_error}"));
                Err(ApiError::failed("migration aborted"))
            }
            Err(MigrationFailure::Problems) => {
                error(task, &format!("migration finished with problems (duration {duration})"));
                Err(ApiError::failed("migration problems"))
            }
        }
    }

    async fn migrate(&self, task: &TaskHandle) -> Result<(), MigrationFailure> {
        let site = &task.site;
        let lock = site.locks.vm(self.vmid, CALL_LOCK_TIMEOUT).await;
        let _guard = lock.map_err(|timeout| MigrationFailure::Aborted(timeout.into()))?;
        let running = self.prepare(task).map_err(MigrationFailure::Aborted)?;
        let started = task.wait(Work::Call).await;
        started.map_err(|text| MigrationFailure::Aborted(ApiError::failed(text)))?;
        let mut moved = BTreeMap::new();
        let volumes = match self.move_offline(task, running, &mut moved).await {
            Ok(volumes) => volumes,
            Err(api_error) => {
                error(task, &api_error.to_string());
                info(task, "aborting phase 1 - cleanup resources");
                self.clean_up_target(task, &moved);
                return Err(MigrationFailure::Aborted(api_error));
            }
        };
        if running && let Err(api_error) = self.move_running(task, &volumes, &mut moved).await {
            error(task, &format!("online migrate failure - {api_error}"));
            info(task, "aborting phase 2 - cleanup resources");
            self.clean_up_target(task, &moved);
            return Err(MigrationFailure::Problems);
        }
        self.assign_to_target(task, &moved).map_err(MigrationFailure::Aborted)
    }

    /// Checks that the VM can migrate, and returns whether it is running.
    fn prepare(&self, task: &TaskHandle) -> Result<bool, ApiError> {
        let pve_state = task.site.pve_state();
        let vm = pve_state.vm(&self.node, self.vmid)?;
        config::check_lock(vm)?;
        let running = vm.is_running();
        if running && !self.online {
            return Err(ApiError::failed("can't migrate running VM without --online"));
        }
        self.check_devices(&pve_state, vm, running)?;
        for drive in drive::drives(&vm.config).iter().filter(|drive| !drive.is_cdrom()) {
            self.check_storage(&pve_state, &volume_of(drive)?)?;
        }
        if !pve_state.hosts.get(&self.target).is_some_and(|host| host.online) {
            return Err(ApiError::failed("Can't connect to destination address using public key"));
        }
        Ok(running)
    }

    fn check_devices(&self, pve_state: &PveState, vm: &Vm, running: bool) -> Result<(), ApiError> {
        let target = &self.target;
        let local = LocalResources::of(pve_state, &vm.config, running);
        let blocking = local.unmapped();
        if !blocking.is_empty() && (running || !self.force) {
            return Err(ApiError::failed(format!(
                "can't migrate VM which uses local devices: {}",
                blocking.join(", ")
            )));
        }
        let missing = local.missing.get(target).filter(|missing| !missing.is_empty());
        if let Some(missing) = missing {
            return Err(ApiError::failed(format!(
                "can't migrate to '{target}': missing mapped devices {}",
                missing.join(", ")
            )));
        }
        let fixed: Vec<String> = local
            .mapped
            .iter()
            .filter(|(_, device)| !device.live)
            .map(|(key, device)| format!("{key}:{}", device.name))
            .collect();
        if running && !fixed.is_empty() {
            return Err(ApiError::failed(format!(
                "can't live migrate running VM which uses following mapped devices: {}",
                fixed.join(", ")
            )));
        }
        Ok(())
    }

    /// Target storage of a volume, or an error if that storage does not support the content type.
    pub(super) fn check_storage(
        &self,
        pve_state: &PveState,
        volume: &VolumeId,
    ) -> Result<String, ApiError> {
        let from = pve_state.storage_on(&volume.storage, &self.node)?;
        let mapped = self.storages.target(&volume.storage);
        let id = if from.shared { &volume.storage } else { mapped };
        let kind = storage::name_of(pve_state, volume)?.content;
        if !pve_state.storage_on(id, &self.target)?.content.contains(&kind) {
            return Err(ApiError::failed(format!(
                "{volume}: content type '{}' is not available on storage '{id}'",
                kind.name()
            )));
        }
        Ok(id.to_owned())
    }

    /// Locks the VM and finds its local volumes. Copies the volumes to which the guest does not write during the migration.
    async fn move_offline(
        &self,
        task: &TaskHandle,
        running: bool,
        moved: &mut BTreeMap<VolumeId, VolumeId>,
    ) -> Result<Vec<LocalVolume>, ApiError> {
        let (vmid, target) = (self.vmid, &self.target);
        let address = {
            let mut pve_state = task.site.pve_state();
            let vm = pve_state.vm_mut(&self.node, vmid)?;
            vm.config.insert("lock".to_owned(), "migrate".to_owned());
            pve_state.hosts.get(target).map(|host| host.ip.clone()).unwrap_or_default()
        };
        info(task, &format!("starting migration of VM {vmid} to node '{target}' ({address})"));
        let volumes = local_volumes::scan(self, task, running).map_err(|error| {
            ApiError::failed(format!("Problem found while scanning volumes - {error}"))
        })?;
        let off_line = |volume: &&LocalVolume| !(running && volume.role == VolumeRole::Attached);
        if volumes.iter().any(|volume| off_line(&volume)) {
            info(task, "copying local disk images");
        }
        for volume in volumes.iter().filter(off_line) {
            let (id, to) = (&volume.id, &volume.target);
            let copied = self.copy(task, volume, false).await.map_err(|error| {
                ApiError::failed(format!(
                    "storage migration for '{id}' to storage '{to}' failed - {error}"
                ))
            })?;
            info(task, &format!("volume '{id}' is '{copied}' on the target"));
            moved.insert(id.clone(), copied);
        }
        Ok(volumes)
    }

    async fn copy(
        &self,
        task: &TaskHandle,
        volume: &LocalVolume,
        mirrored: bool,
    ) -> Result<VolumeId, ApiError> {
        let site = &task.site;
        if !mirrored {
            local_volumes::check_transfer(&site.pve_state(), volume)?;
        }
        progress::wait(task, Work::Fetch { bytes: volume.used }).await?;
        local_volumes::create_on_target(
            &mut site.pve_state(),
            &self.node,
            &self.target,
            volume,
            self.vmid,
            site.now(),
        )
    }

    /// Mirrors the disks of the running VM, then transfers its memory.
    async fn move_running(
        &self,
        task: &TaskHandle,
        volumes: &[LocalVolume],
        moved: &mut BTreeMap<VolumeId, VolumeId>,
    ) -> Result<(), ApiError> {
        let (vmid, target) = (self.vmid, &self.target);
        info(task, &format!("starting VM {vmid} on remote node '{target}'"));
        info(task, "start remote tunnel");
        let attached = volumes.iter().filter(|volume| volume.role == VolumeRole::Attached);
        for (index, volume) in attached.enumerate() {
            if index == 0 {
                info(task, "starting storage migration");
            }
            let slot = volume.slot.as_deref().unwrap_or_default();
            let export = format!("nbd:unix:/run/qemu-server/{vmid}_nbd.migrate");
            info(task, &format!("{slot}: start migration to {export}:exportname=drive-{slot}"));
            let copied = self.copy(task, volume, true).await?;
            moved.insert(volume.id.clone(), copied);
        }
        let bytes = {
            let pve_state = task.site.pve_state();
            let vm = pve_state.vm(&self.node, vmid)?;
            memory::mib(&pve_state, vm.config.get("memory").map(String::as_str)) << 20
        };
        let uri = format!("unix:/run/qemu-server/{vmid}.migrate");
        info(task, &format!("starting online/live migration on {uri}"));
        for line in ["set migration capabilities", "migration downtime limit: 100 ms"] {
            info(task, line);
        }
        info(task, &format!("start migrate command to {uri}"));
        progress::wait(task, Work::Migrate { bytes }).await?;
        let memory = progress::bytes(bytes);
        info(task, &format!("migration completed, transferred {memory} VM-state"));
        info(task, "migration status: completed");
        Ok(())
    }

    /// Assigns the VM to the target host.
    fn assign_to_target(
        &self,
        task: &TaskHandle,
        moved: &BTreeMap<VolumeId, VolumeId>,
    ) -> Result<(), ApiError> {
        let mut pve_state = task.site.pve_state();
        let vm = pve_state.vm_mut(&self.node, self.vmid)?;
        volume_references::replace(vm, moved);
        vm.node.clone_from(&self.target);
        vm.config.remove("lock");
        for old in moved.keys() {
            storage::free(&mut pve_state, &self.node, old)?;
        }
        Ok(())
    }

    fn clean_up_target(&self, task: &TaskHandle, moved: &BTreeMap<VolumeId, VolumeId>) {
        let mut pve_state = task.site.pve_state();
        if let Ok(vm) = pve_state.vm_mut(&self.node, self.vmid) {
            vm.config.remove("lock");
        }
        for new in moved.values() {
            // A volume that cannot be removed stays on the target.
            drop(storage::free(&mut pve_state, &self.target, new));
        }
    }
}

pub(super) fn info(task: &TaskHandle, text: &str) {
    task.log(format!("{} {text}", timestamp::date_time(task.site.now())));
}

fn error(task: &TaskHandle, text: &str) {
    task.log(format!("{} ERROR: {text}", timestamp::date_time(task.site.now())));
}
