//! Creation, deletion and rollback of VM snapshots.
//!
//! Each operation consists of several parts. Between the parts the lock file is not locked, but the option `lock` in the config
//! prevents other operations. If a part fails, the option `lock` and the results of the earlier parts remain.

use std::collections::BTreeSet;

use talmox_lab_environment::Work;

use super::drive::{self, Drive};
use super::local_resources::state_blockers;
use super::volume_references::{add_unused, all_can, keep_unused, volume_of};
use super::{clone_disk, config, identity, memory, progress};
use crate::ApiError;
use crate::lock::{CALL_LOCK_TIMEOUT, LockGuard};
use crate::pve_state::{Config, PveState, Snapshot, Vm, VolumeId};
use crate::storage::{self, Allocation, Feature};
use crate::task::TaskHandle;

/// Space for device state in addition to the memory.
const DRIVER_STATE_MIB: u64 = 500;

/// Snapshot that a task operates on.
#[derive(Debug)]
pub(crate) struct SnapshotOperation<'a> {
    pub(crate) task: &'a TaskHandle,
    pub(crate) node: &'a str,
    pub(crate) vmid: u32,
    pub(crate) name: &'a str,
}

/// Rejects saving the memory of a VM with devices that do not support it.
pub(crate) fn check_saving_memory(config: &Config, memory: bool) -> Result<(), ApiError> {
    if !memory {
        return Ok(());
    }
    let blockers = state_blockers(config);
    if blockers.is_empty() {
        return Ok(());
    }
    Err(ApiError::failed(format!(
        "Cannot live-migrate, snapshot (with RAM), or hibernate a VM with: {}",
        blockers.join(", ")
    )))
}

impl SnapshotOperation<'_> {
    pub(crate) async fn create(
        &self,
        memory: bool,
        description: Option<&str>,
    ) -> Result<(), ApiError> {
        let taken_with = self.prepare(memory, description).await?;
        let mut done = BTreeSet::new();
        if let Err(error) = self.take(&taken_with, &mut done).await {
            self.task.log("snapshot create failed: starting cleanup");
            if let Err(error) = self.remove("snapshot", true, Some(&done)).await {
                self.task.log(error.to_string());
            }
            return Err(error);
        }
        let _guard = self.lock_file().await?;
        self.change(|vm, snapshot| {
            snapshot.remove("snapstate");
            vm.config.remove("lock");
            vm.config.insert("parent".to_owned(), self.name.to_owned());
        })
    }

    /// Records the snapshot in the config before any volume changes. Returns the VM with this record.
    async fn prepare(&self, memory: bool, description: Option<&str>) -> Result<Vm, ApiError> {
        let _guard = self.lock_file().await?;
        let site = &self.task.site;
        let mut vm = site.pve_state().vm(self.node, self.vmid)?.clone();
        self.check_new(&site.pve_state(), &vm, memory)?;
        let saves = memory && vm.is_running();
        let state = if saves { Some(self.allocate_memory(&vm).await?) } else { None };
        let mut config = copied(&vm.config);
        if let Some(state) = &state {
            config.insert("vmstate".to_owned(), state.to_string());
            let version = site.pve_state().release.qemu();
            config.insert("runningmachine".to_owned(), running_machine(&vm, version));
        }
        config.insert("snapstate".to_owned(), "prepare".to_owned());
        config.insert("snaptime".to_owned(), site.now().to_string());
        if let Some(text) = description.filter(|text| !text.is_empty()) {
            config.insert("description".to_owned(), text.to_owned());
        }
        config::normalize(&mut config);
        for other in vm.snapshots.values_mut() {
            if other.config.get("parent").is_some_and(|parent| parent == self.name) {
                other.config.remove("parent");
            }
        }
        vm.snapshots.insert(self.name.to_owned(), Snapshot { config });
        vm.config.insert("lock".to_owned(), "snapshot".to_owned());
        *site.pve_state().vm_mut(self.node, self.vmid)? = vm.clone();
        Ok(vm)
    }

    fn check_new(&self, pve_state: &PveState, vm: &Vm, memory: bool) -> Result<(), ApiError> {
        if vm.is_template() {
            return Err(ApiError::failed("you can't take a snapshot if it's a template"));
        }
        config::check_lock(vm)?;
        check_saving_memory(&vm.config, memory)?;
        let name = self.name;
        if vm.snapshots.contains_key(name) {
            return Err(ApiError::failed(format!("snapshot name '{name}' already used")));
        }
        if !all_can(pve_state, &vm.config, Feature::Snapshot, None)? {
            return Err(ApiError::failed("snapshot feature is not available"));
        }
        Ok(())
    }

    /// Creates the volume for the memory. The volume has twice the size of the memory, because the guest continues to run while
    /// the memory is saved.
    async fn allocate_memory(&self, vm: &Vm) -> Result<VolumeId, ApiError> {
        let site = &self.task.site;
        let (storage, shared, name, mib) = {
            let pve_state = site.pve_state();
            let id = memory_storage(&pve_state, &vm.config)?;
            let storage = pve_state.storage_on(&id, self.node)?;
            let suffix = if storage.kind.has_files() { ".raw" } else { "" };
            let name = format!("vm-{}-state-{}{suffix}", self.vmid, self.name);
            let memory = memory::mib(&pve_state, vm.config.get("memory").map(String::as_str));
            (id, storage.shared, name, memory * 2 + DRIVER_STATE_MIB)
        };
        let _guard = site.locks.storage(self.node, &storage, shared).await?;
        progress::wait(self.task, Work::Allocate).await?;
        let new = Allocation {
            node: self.node,
            storage: &storage,
            vmid: self.vmid,
            format: Some("raw"),
            name: Some(&name),
            kib: mib << 10,
            now: site.now(),
        };
        storage::alloc(&mut site.pve_state(), &new)
    }

    async fn take(&self, vm: &Vm, done: &mut BTreeSet<String>) -> Result<(), ApiError> {
        let site = &self.task.site;
        let Some(snapshot) = vm.snapshots.get(self.name) else { return Ok(()) };
        let disks = disks(&snapshot.config);
        self.check_storages(&disks)?;
        if let Some(state) = snapshot.config.get("vmstate") {
            let storage = state.split(':').next().unwrap_or_default();
            self.task.log(format!("saving VM state and RAM using storage '{storage}'"));
            let memory = vm.config.get("memory").map(String::as_str);
            let bytes = memory::mib(&site.pve_state(), memory) << 20;
            progress::wait(self.task, Work::Transfer { bytes }).await?;
            let saved = progress::bytes(bytes);
            self.task.log(format!("completed saving the VM state, saved {saved}"));
        }
        for drive in disks {
            self.task.log(format!("snapshotting 'drive-{}' ({})", drive.key, drive.file()));
            progress::wait(self.task, Work::Allocate).await?;
            let volume = volume_of(&drive)?;
            storage::snapshot(&mut site.pve_state(), self.node, &volume, self.name)?;
            done.insert(drive.key.clone());
        }
        Ok(())
    }

    pub(crate) async fn delete(&self, force: bool) -> Result<(), ApiError> {
        let disks = disks(&self.snapshot()?);
        self.check_storages(&disks)?;
        {
            let _guard = self.lock_file().await?;
            let mut pve_state = self.task.site.pve_state();
            let vm = pve_state.vm_mut(self.node, self.vmid)?;
            config::check_lock(vm)?;
            vm.config.insert("lock".to_owned(), "snapshot-delete".to_owned());
        }
        self.remove("snapshot-delete", force, None).await
    }

    /// Removes a snapshot of a VM whose config has this `lock`. With `only`, the snapshot is deleted only on the disks in
    /// `only`.
    async fn remove(
        &self,
        lock: &str,
        force: bool,
        only: Option<&BTreeSet<String>>,
    ) -> Result<(), ApiError> {
        let site = &self.task.site;
        let snapshot = {
            let _guard = self.lock_file().await?;
            let mut pve_state = site.pve_state();
            let vm = pve_state.vm_mut(self.node, self.vmid)?;
            if vm.lock() != Some(lock) {
                return Err(ApiError::failed(format!(
                    "encountered invalid lock, expected '{lock}'"
                )));
            }
            if vm.is_template() {
                return Err(ApiError::failed("you can't delete a snapshot if vm is a template"));
            }
            let missing = self.missing();
            let snapshot = vm.snapshots.get_mut(self.name).ok_or(missing)?;
            snapshot.config.insert("snapstate".to_owned(), "delete".to_owned());
            snapshot.config.clone()
        };
        if let Some(state) = snapshot.get("vmstate").and_then(|state| VolumeId::parse(state)) {
            self.or_force(force, clone_disk::free(self.task, self.node, &state).await)?;
            self.change(|_, snapshot| {
                snapshot.remove("vmstate");
            })?;
        }
        let mut unused = vec![];
        for drive in disks(&snapshot) {
            if only.is_none_or(|only| only.contains(&drive.key)) {
                let deleted = self.delete_one(&drive).await;
                if deleted.is_ok() {
                    unused.push(drive.file().to_owned());
                }
                self.or_force(force, deleted)?;
            }
            self.change(|_, snapshot| {
                snapshot.remove(&drive.key);
                add_unused(snapshot, drive.file());
            })?;
        }
        let _guard = self.lock_file().await?;
        self.remove_from_config(&unused)
    }

    async fn delete_one(&self, drive: &Drive) -> Result<(), ApiError> {
        progress::wait(self.task, Work::Allocate).await?;
        let mut pve_state = self.task.site.pve_state();
        storage::delete_snapshot(&mut pve_state, self.node, &volume_of(drive)?, self.name)
    }

    /// Removes the snapshot from the config. The children of the snapshot get the parent of the snapshot as their parent.
    fn remove_from_config(&self, unused: &[String]) -> Result<(), ApiError> {
        let mut pve_state = self.task.site.pve_state();
        let vm = pve_state.vm_mut(self.node, self.vmid)?;
        let Some(gone) = vm.snapshots.remove(self.name) else { return Err(self.missing()) };
        let before = gone.config.get("parent").cloned();
        let others = vm.snapshots.values_mut().map(|snapshot| &mut snapshot.config);
        for config in others.chain([&mut vm.config]) {
            if config.get("parent").is_some_and(|parent| parent == self.name) {
                config.remove("parent");
                config.extend(before.clone().map(|before| ("parent".to_owned(), before)));
            }
        }
        vm.config.remove("lock");
        for volume in unused {
            keep_unused(vm, volume);
        }
        Ok(())
    }

    /// With `force`, logs the error of a volume instead of returning it.
    fn or_force(&self, force: bool, done: Result<(), ApiError>) -> Result<(), ApiError> {
        match done {
            Err(error) if force => {
                self.task.log(error.to_string());
                Ok(())
            }
            done => done,
        }
    }

    /// Rolls the VM back, and returns whether the snapshot contains memory.
    pub(crate) async fn rollback(&self) -> Result<bool, ApiError> {
        let snapshot = self.prepare_rollback().await?;
        let site = &self.task.site;
        for drive in disks(&snapshot) {
            progress::wait(self.task, Work::Allocate).await?;
            storage::rollback(&mut site.pve_state(), self.node, &volume_of(&drive)?, self.name)?;
        }
        let _guard = self.lock_file().await?;
        let mut chance = site.chance(&format!("vm/{}", self.vmid));
        let mut pve_state = site.pve_state();
        let vm = pve_state.vm_mut(self.node, self.vmid)?;
        let mut config: Config = vm
            .config
            .iter()
            .filter(|(key, _)| *key == "description" || drive::is_unused(key))
            .map(|(key, value)| (key.clone(), value.clone()))
            .collect();
        config.extend(copied(&snapshot));
        config.insert("parent".to_owned(), self.name.to_owned());
        for key in ["runningmachine", "runningcpu", "running-nets-host-mtu"] {
            config.remove(key);
        }
        if config.contains_key("vmgenid") {
            config.insert("vmgenid".to_owned(), identity::uuid(&mut chance));
        }
        let replaced = drive::drives(&std::mem::replace(&mut vm.config, config));
        vm.pending.clear();
        vm.pending_delete.clear();
        let mut gone = vec![];
        for drive in replaced.iter().filter(|drive| !drive.is_cdrom() || drive.is_cloudinit()) {
            let kept = drive::drives(&vm.config).iter().any(|new| new.file() == drive.file());
            match drive.is_cloudinit() {
                _ if kept => {}
                true => gone.extend(VolumeId::parse(drive.file())),
                false => drop(keep_unused(vm, drive.file())),
            }
        }
        for volume in gone {
            // An error is ignored, because a missing volume counts as destroyed.
            drop(storage::free(&mut pve_state, self.node, &volume));
        }
        Ok(snapshot.contains_key("vmstate"))
    }

    async fn prepare_rollback(&self) -> Result<Config, ApiError> {
        let _guard = self.lock_file().await?;
        let site = &self.task.site;
        let snapshot = {
            let pve_state = site.pve_state();
            let vm = pve_state.vm(self.node, self.vmid)?;
            if vm.is_template() {
                return Err(ApiError::failed("you can't rollback if vm is a template"));
            }
            let missing = || self.missing();
            let snapshot = vm.snapshots.get(self.name).ok_or_else(missing)?.config.clone();
            let disks = disks(&snapshot);
            for drive in &disks {
                pve_state.storage_on(&volume_of(drive)?.storage, self.node)?;
            }
            for drive in &disks {
                storage::check_rollback(&pve_state, self.node, &volume_of(drive)?, self.name)?;
            }
            if let Some(state) = snapshot.get("snapstate") {
                return Err(ApiError::failed(format!(
                    "unable to rollback to incomplete snapshot (snapstate = {state})"
                )));
            }
            config::check_lock(vm)?;
            snapshot
        };
        let is_running = site.pve_state().vm(self.node, self.vmid)?.is_running();
        if is_running {
            progress::wait(self.task, Work::Stop).await?;
            site.guest_power_off(self.vmid);
        }
        let mut pve_state = site.pve_state();
        let vm = pve_state.vm_mut(self.node, self.vmid)?;
        vm.config.insert("lock".to_owned(), "rollback".to_owned());
        Ok(snapshot)
    }

    fn snapshot(&self) -> Result<Config, ApiError> {
        let pve_state = self.task.site.pve_state();
        let vm = pve_state.vm(self.node, self.vmid)?;
        let snapshot = vm.snapshots.get(self.name);
        snapshot.map(|snapshot| snapshot.config.clone()).ok_or_else(|| self.missing())
    }

    fn check_storages(&self, disks: &[Drive]) -> Result<(), ApiError> {
        let pve_state = self.task.site.pve_state();
        for drive in disks {
            pve_state.storage_on(&volume_of(drive)?.storage, self.node)?;
        }
        Ok(())
    }

    fn missing(&self) -> ApiError {
        ApiError::failed(format!("snapshot '{}' does not exist", self.name))
    }

    async fn lock_file(&self) -> Result<LockGuard, ApiError> {
        Ok(self.task.site.locks.vm(self.vmid, CALL_LOCK_TIMEOUT).await?)
    }

    /// Changes the VM and its snapshot in one operation.
    fn change(&self, act: impl FnOnce(&mut Vm, &mut Config)) -> Result<(), ApiError> {
        let mut pve_state = self.task.site.pve_state();
        let vm = pve_state.vm_mut(self.node, self.vmid)?;
        let mut snapshot = vm.snapshots.remove(self.name).ok_or_else(|| self.missing())?;
        act(vm, &mut snapshot.config);
        vm.snapshots.insert(self.name.to_owned(), snapshot);
        Ok(())
    }
}

fn disks(config: &Config) -> Vec<Drive> {
    drive::drives(config).into_iter().filter(|drive| !drive.is_cdrom()).collect()
}

/// Options that a snapshot copies from the config, and a rollback copies back.
fn copied(config: &Config) -> Config {
    let own = ["snapstate", "snaptime", "vmstate", "lock", "description"];
    config
        .iter()
        .filter(|(key, _)| !own.contains(&key.as_str()) && !drive::is_unused(key))
        .map(|(key, value)| (key.clone(), value.clone()))
        .collect()
}

/// Storage for the saved memory: the option `vmstatestorage`, or else one of the storages of the disks. Shared and file-based
/// storages are preferred.
fn memory_storage(pve_state: &PveState, config: &Config) -> Result<String, ApiError> {
    if let Some(storage) = config.get("vmstatestorage") {
        return Ok(storage.clone());
    }
    let (mut shared, mut local) = (None, None);
    let own: BTreeSet<String> = disks(config)
        .iter()
        .filter_map(|drive| VolumeId::parse(drive.file()))
        .map(|volume| volume.storage)
        .collect();
    for id in own {
        let storage = pve_state.storage(&id)?;
        let place = if storage.shared { &mut shared } else { &mut local };
        if place.is_none() || storage.kind.has_files() {
            *place = Some(id);
        }
    }
    Ok(shared.or(local).unwrap_or_else(|| "local".to_owned()))
}

/// Machine type with version that QEMU runs.
fn running_machine(vm: &Vm, qemu: &str) -> String {
    let version = qemu.rsplit_once('.').map_or(qemu, |(version, _)| version);
    let machine = vm.config.get("machine").map_or("pc", String::as_str);
    let machine = machine.split(',').next().unwrap_or_default();
    match machine {
        "q35" => format!("pc-q35-{version}+pve0"),
        "pc" => format!("pc-i440fx-{version}+pve0"),
        pinned => pinned.to_owned(),
    }
}
