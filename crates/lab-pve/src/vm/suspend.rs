//! Suspend to disk: saves the memory to a volume. The next start restores the memory from it.

use talmox_lab_environment::Work;

use super::disk_creation::{Worker, lock_storage};
use super::drive;
use super::memory;
use super::{config, machine};
use crate::ApiError;
use crate::lock::CALL_LOCK_TIMEOUT;
use crate::pve_state::{Config, PveState, VolumeId};
use crate::storage::{self, Allocation};

/// Space in MiB for device state in addition to the memory.
const DEVICES_MIB: u64 = 500;

/// Options that a suspended VM stores about its run.
const RUN_OPTIONS: &[&str] = &["vmstate", "runningmachine", "runningcpu", "running-nets-host-mtu"];

/// Default storage for saved memory: the option `vmstatestorage`, or else the storage of a disk, preferably a shared one.
pub(crate) fn default_storage(pve_state: &PveState, options: &Config) -> String {
    if let Some(storage) = options.get("vmstatestorage") {
        return storage.clone();
    }
    let (mut shared, mut local) = (None, None);
    for volume in drive::drives(options).iter().filter_map(drive::Drive::volume) {
        let Some(storage) = pve_state.storages.get(&volume.storage) else { continue };
        let best = if storage.shared { &mut shared } else { &mut local };
        if best.is_none() || storage.kind.has_files() {
            *best = Some(volume.storage);
        }
    }
    shared.or(local).unwrap_or_else(|| "local".to_owned())
}

/// Creates the volume for the memory of a running VM. `what` is part of the volume name.
pub(crate) async fn state_volume(
    worker: &Worker,
    node: &str,
    vmid: u32,
    storage_id: &str,
    what: &str,
) -> Result<VolumeId, ApiError> {
    let site = worker.site();
    let (shared, has_files, memory) = {
        let pve_state = site.pve_state();
        let storage = pve_state.storage(storage_id)?;
        let options = &pve_state.vm(node, vmid)?.config;
        let memory = memory::mib(&pve_state, options.get("memory").map(String::as_str));
        (storage.shared, storage.kind.has_files(), memory)
    };
    let name = format!("vm-{vmid}-state-{what}{}", if has_files { ".raw" } else { "" });
    let _guard = lock_storage(worker, node, storage_id, shared).await?;
    worker.wait(Work::Allocate, storage_id).await?;
    let new = Allocation {
        node,
        storage: storage_id,
        vmid,
        format: Some("raw"),
        name: Some(&name),
        // The volume has twice the size of the memory, because the guest changes the memory while it is saved.
        kib: (memory * 2 + DEVICES_MIB) << 10,
        now: site.now(),
    };
    storage::alloc(&mut site.pve_state(), &new)
}

/// Saves the memory of a running VM, and stops the VM.
pub(crate) async fn to_disk(
    worker: &Worker,
    node: &str,
    vmid: u32,
    storage_id: &str,
    skip_lock: bool,
) -> Result<(), ApiError> {
    let site = worker.site();
    let lock = |timeout: crate::lock::LockTimeout| ApiError::failed(timeout.to_string());
    let guard = site.locks.vm(vmid, CALL_LOCK_TIMEOUT).await.map_err(lock)?;
    {
        let pve_state = site.pve_state();
        let vm = pve_state.vm(node, vmid)?;
        if vm.lock() == Some("backup") {
            return Err(ApiError::failed("cannot suspend to disk during backup"));
        }
        if !skip_lock {
            config::check_lock(vm)?;
        }
    }
    let what = format!("suspend-{}", date(site.now()));
    let volume = state_volume(worker, node, vmid, storage_id, &what).await?;
    let memory = {
        let mut pve_state = site.pve_state();
        let release = pve_state.release;
        let memory =
            memory::mib(&pve_state, pve_state.vm(node, vmid)?.config.get("memory").map(|m| &**m));
        let vm = pve_state.vm_mut(node, vmid)?;
        let machine = machine::running(release, vm.config.get("machine"));
        let processor = vm.config.get("cpu").cloned().unwrap_or_else(|| "kvm64".to_owned());
        vm.config.insert("lock".to_owned(), "suspending".to_owned());
        vm.config.insert("vmstate".to_owned(), volume.to_string());
        vm.config.insert("runningmachine".to_owned(), machine);
        vm.config.insert("runningcpu".to_owned(), processor);
        memory
    };
    drop(guard);
    let saved = worker.wait(Work::Copy { bytes: memory << 20 }, storage_id).await;
    let _guard = site.locks.vm(vmid, CALL_LOCK_TIMEOUT).await.map_err(lock)?;
    if let Err(error) = saved {
        // The lock stays in the config, so that the failure is visible.
        let mut pve_state = site.pve_state();
        storage::free(&mut pve_state, node, &volume)?;
        let vm = pve_state.vm_mut(node, vmid)?;
        vm.config.retain(|key, _| !RUN_OPTIONS.contains(&key.as_str()));
        return Err(error);
    }
    worker.log("State saved, quitting");
    site.guest_power_off(vmid);
    let mut pve_state = site.pve_state();
    pve_state.vm_mut(node, vmid)?.config.insert("lock".to_owned(), "suspended".to_owned());
    Ok(())
}

/// Removes the saved memory after the guest has resumed.
pub(crate) fn drop_state(worker: &Worker, node: &str, vmid: u32) -> Result<(), ApiError> {
    worker.log("Resumed VM, removing state");
    let mut pve_state = worker.site().pve_state();
    let options = &pve_state.vm(node, vmid)?.config;
    if let Some(volume) = options.get("vmstate").and_then(|text| VolumeId::parse(text)) {
        storage::free(&mut pve_state, node, &volume)?;
    }
    let vm = pve_state.vm_mut(node, vmid)?;
    vm.config.retain(|key, _| key != "lock" && !RUN_OPTIONS.contains(&key.as_str()));
    Ok(())
}

/// Date as `2026-11-15`, from a time in seconds since 1970.
fn date(seconds: u64) -> String {
    // Days are counted from 1 March of year 0, so that leap days come last.
    let days = seconds / 86_400 + 719_468;
    let (era, of_era) = (days / 146_097, days % 146_097);
    let year_of_era = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted = (5 * of_year + 2) / 153;
    let day = of_year - (153 * shifted + 2) / 5 + 1;
    let month = if shifted < 10 { shifted + 3 } else { shifted - 9 };
    let year = era * 400 + year_of_era + u64::from(month <= 2);
    format!("{year:04}-{month:02}-{day:02}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_formatted() {
        assert_eq!(date(0), "1970-01-01");
        assert_eq!(date(951_782_400), "2000-02-29");
        assert_eq!(date(951_868_800), "2000-03-01");
        assert_eq!(date(1_794_700_800), "2026-11-15");
    }
}
