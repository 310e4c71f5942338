//! Moving a VM to another host, with its local disks, switched off or running.

use std::collections::BTreeMap;

use talmox_lab_environment::Work;

use super::local::LocalResources;
use super::local_volumes::{self, LocalVolume, Role};
use super::storage_map::StorageMap;
use super::volumes::volume_of;
use super::{config, drive, memory, progress, timestamp, volumes};
use crate::Refusal;
use crate::lock::CALL_PATIENCE;
use crate::storage;
use crate::task::TaskHandle;
use crate::world::{Vm, VolumeId, World};

#[derive(Debug)]
pub(crate) struct Migration {
    pub(crate) node: String,
    pub(crate) vmid: u32,
    pub(crate) target: String,
    /// The guest may go on running.
    pub(crate) online: bool,
    pub(crate) with_local_disks: bool,
    /// Never mind local devices.
    pub(crate) force: bool,
    pub(crate) storages: StorageMap,
}

/// How a migration ends that does not succeed.
enum Failure {
    /// The VM is where it was.
    Aborted(Refusal),
    /// Something went wrong when the guest was on its way already.
    Problems,
}

impl Migration {
    pub(crate) async fn run(&self, task: &TaskHandle) -> Result<(), Refusal> {
        let began = task.site.now();
        let done = self.go(task).await;
        let duration = timestamp::duration(task.site.now() - began);
        match done {
            Ok(()) => {
                info(task, &format!("migration finished successfully (duration {duration})"));
                Ok(())
            }
            Err(Failure::Aborted(refusal)) => {
                error(task, &format!("migration aborted (duration {duration}): {refusal}"));
                Err(Refusal::failed("migration aborted"))
            }
            Err(Failure::Problems) => {
                error(task, &format!("migration finished with problems (duration {duration})"));
                Err(Refusal::failed("migration problems"))
            }
        }
    }

    async fn go(&self, task: &TaskHandle) -> Result<(), Failure> {
        let site = &task.site;
        let lock = site.locks.vm(self.vmid, CALL_PATIENCE).await;
        let _guard = lock.map_err(|timeout| Failure::Aborted(timeout.into()))?;
        let running = self.prepare(task).map_err(Failure::Aborted)?;
        let begun = task.wait(Work::Call).await;
        begun.map_err(|text| Failure::Aborted(Refusal::failed(text)))?;
        let mut moved = BTreeMap::new();
        let volumes = match self.move_off_line(task, running, &mut moved).await {
            Ok(volumes) => volumes,
            Err(refusal) => {
                error(task, &refusal.to_string());
                info(task, "aborting phase 1 - cleanup resources");
                self.give_up(task, &moved);
                return Err(Failure::Aborted(refusal));
            }
        };
        if running && let Err(refusal) = self.move_running(task, &volumes, &mut moved).await {
            error(task, &format!("online migrate failure - {refusal}"));
            info(task, "aborting phase 2 - cleanup resources");
            self.give_up(task, &moved);
            return Err(Failure::Problems);
        }
        self.arrive(task, &moved).map_err(Failure::Aborted)
    }

    /// Whether the VM can move at all; tells whether it runs.
    fn prepare(&self, task: &TaskHandle) -> Result<bool, Refusal> {
        let world = task.site.world();
        let vm = world.vm(&self.node, self.vmid)?;
        config::check_lock(vm)?;
        let running = vm.is_running();
        if running && !self.online {
            return Err(Refusal::failed("can't migrate running VM without --online"));
        }
        self.check_devices(&world, vm, running)?;
        for drive in drive::drives(&vm.config).iter().filter(|drive| !drive.is_cdrom()) {
            self.check_storage(&world, &volume_of(drive)?)?;
        }
        if !world.hosts.get(&self.target).is_some_and(|host| host.online) {
            return Err(Refusal::failed("Can't connect to destination address using public key"));
        }
        Ok(running)
    }

    fn check_devices(&self, world: &World, vm: &Vm, running: bool) -> Result<(), Refusal> {
        let target = &self.target;
        let local = LocalResources::of(world, &vm.config, running);
        let blocking = local.unmapped();
        if !blocking.is_empty() && (running || !self.force) {
            return Err(Refusal::failed(format!(
                "can't migrate VM which uses local devices: {}",
                blocking.join(", ")
            )));
        }
        let missing = local.missing.get(target).filter(|missing| !missing.is_empty());
        if let Some(missing) = missing {
            return Err(Refusal::failed(format!(
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
            return Err(Refusal::failed(format!(
                "can't live migrate running VM which uses following mapped devices: {}",
                fixed.join(", ")
            )));
        }
        Ok(())
    }

    /// The storage that a volume goes to.
    pub(super) fn check_storage(
        &self,
        world: &World,
        volume: &VolumeId,
    ) -> Result<String, Refusal> {
        let from = world.storage_on(&volume.storage, &self.node)?;
        let mapped = self.storages.target(&volume.storage);
        let id = if from.shared { &volume.storage } else { mapped };
        let kind = storage::name_of(world, volume)?.content;
        if !world.storage_on(id, &self.target)?.content.contains(&kind) {
            return Err(Refusal::failed(format!(
                "{volume}: content type '{}' is not available on storage '{id}'",
                kind.name()
            )));
        }
        Ok(id.to_owned())
    }

    /// Locks the VM, looks for local volumes, and copies those that no guest writes to.
    async fn move_off_line(
        &self,
        task: &TaskHandle,
        running: bool,
        moved: &mut BTreeMap<VolumeId, VolumeId>,
    ) -> Result<Vec<LocalVolume>, Refusal> {
        let (vmid, target) = (self.vmid, &self.target);
        let address = {
            let mut world = task.site.world();
            let vm = world.vm_mut(&self.node, vmid)?;
            vm.config.insert("lock".to_owned(), "migrate".to_owned());
            world.hosts.get(target).map(|host| host.ip.clone()).unwrap_or_default()
        };
        info(task, &format!("starting migration of VM {vmid} to node '{target}' ({address})"));
        let volumes = local_volumes::scan(self, task, running).map_err(|refusal| {
            Refusal::failed(format!("Problem found while scanning volumes - {refusal}"))
        })?;
        let off_line = |volume: &&LocalVolume| !(running && volume.role == Role::Attached);
        if volumes.iter().any(|volume| off_line(&volume)) {
            info(task, "copying local disk images");
        }
        for volume in volumes.iter().filter(off_line) {
            let (id, to) = (&volume.id, &volume.target);
            let copied = self.copy(task, volume, false).await.map_err(|refusal| {
                Refusal::failed(format!(
                    "storage migration for '{id}' to storage '{to}' failed - {refusal}"
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
    ) -> Result<VolumeId, Refusal> {
        let site = &task.site;
        if !mirrored {
            local_volumes::check_transfer(&site.world(), volume)?;
        }
        progress::wait(task, Work::Fetch { bytes: volume.used }).await?;
        local_volumes::put_on_target(
            &mut site.world(),
            &self.node,
            &self.target,
            volume,
            self.vmid,
            site.now(),
        )
    }

    /// The guest's disks are mirrored, then its memory follows.
    async fn move_running(
        &self,
        task: &TaskHandle,
        volumes: &[LocalVolume],
        moved: &mut BTreeMap<VolumeId, VolumeId>,
    ) -> Result<(), Refusal> {
        let (vmid, target) = (self.vmid, &self.target);
        info(task, &format!("starting VM {vmid} on remote node '{target}'"));
        info(task, "start remote tunnel");
        let attached = volumes.iter().filter(|volume| volume.role == Role::Attached);
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
            let world = task.site.world();
            let vm = world.vm(&self.node, vmid)?;
            memory::mib(&world, vm.config.get("memory").map(String::as_str)) << 20
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

    /// From now on the VM is the other host's.
    fn arrive(
        &self,
        task: &TaskHandle,
        moved: &BTreeMap<VolumeId, VolumeId>,
    ) -> Result<(), Refusal> {
        let mut world = task.site.world();
        let vm = world.vm_mut(&self.node, self.vmid)?;
        volumes::replace(vm, moved);
        vm.node.clone_from(&self.target);
        vm.config.remove("lock");
        for old in moved.keys() {
            storage::free(&mut world, &self.node, old)?;
        }
        Ok(())
    }

    fn give_up(&self, task: &TaskHandle, moved: &BTreeMap<VolumeId, VolumeId>) {
        let mut world = task.site.world();
        if let Ok(vm) = world.vm_mut(&self.node, self.vmid) {
            vm.config.remove("lock");
        }
        for new in moved.values() {
            // What cannot be removed stays behind on the target.
            drop(storage::free(&mut world, &self.target, new));
        }
    }
}

pub(super) fn info(task: &TaskHandle, text: &str) {
    task.log(format!("{} {text}", timestamp::date_time(task.site.now())));
}

fn error(task: &TaskHandle, text: &str) {
    task.log(format!("{} ERROR: {text}", timestamp::date_time(task.site.now())));
}
