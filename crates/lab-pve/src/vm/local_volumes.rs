//! Local volumes that a migration must move.

use super::migration::{Migration, info};
use super::volume_references::{self, VolumeReference};
use crate::ApiError;
use crate::pve_state::{PveState, StorageKind, VolumeId};
use crate::storage::{self, Allocation, Feature};
use crate::task::TaskHandle;

/// Volume on a local storage that a migration moves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LocalVolume {
    pub(crate) id: VolumeId,
    /// Storage that the volume is moved to.
    pub(crate) target: String,
    pub(crate) role: VolumeRole,
    pub(crate) slot: Option<String>,
    /// Number of bytes to copy.
    pub(crate) used: u64,
}

/// Reason why the VM refers to the volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum VolumeRole {
    Attached,
    Unused,
    Snapshot,
    Pending,
    /// Volume that is generated from the config, or internal to QEMU.
    Generated,
}

impl VolumeRole {
    fn of(reference: &VolumeReference) -> Self {
        if reference.tpm || reference.cdrom {
            Self::Generated
        } else if reference.attached {
            Self::Attached
        } else if reference.unused {
            Self::Unused
        } else if reference.snapshots.is_empty() {
            Self::Pending
        } else {
            Self::Snapshot
        }
    }
}

/// Finds the local volumes of a VM. Rejects the migration if one of the volumes cannot be moved.
pub(super) fn scan(
    migration: &Migration,
    task: &TaskHandle,
    running: bool,
) -> Result<Vec<LocalVolume>, ApiError> {
    let mut found = vec![];
    let mut errors: Vec<String> = vec![];
    {
        let pve_state = task.site.pve_state();
        let vm = pve_state.vm(&migration.node, migration.vmid)?;
        for (file, reference) in volume_references::references(vm) {
            match check_volume(migration, &pve_state, &file, &reference, running) {
                Ok(volume) => found.extend(volume),
                Err(api_error) if file == "cdrom" => errors.push(api_error.to_string()),
                Err(api_error) => {
                    errors.push(format!("can't migrate local disk '{file}': {api_error}"));
                }
            }
        }
    }
    for volume in &found {
        let id = &volume.id;
        info(
            task,
            &match volume.role {
                VolumeRole::Attached => format!("found local disk '{id}' (attached)"),
                VolumeRole::Unused => format!("found local disk '{id}' (unused)"),
                VolumeRole::Snapshot => {
                    format!("found local disk '{id}' (referenced by snapshot(s))")
                }
                VolumeRole::Pending => format!("found local disk '{id}' (pending change)"),
                VolumeRole::Generated => {
                    format!("found generated disk '{id}' (in current VM config)")
                }
            },
        );
        if running && volume.role == VolumeRole::Attached && !migration.with_local_disks {
            errors.push(format!(
                "can't migrate local disk '{id}': can't live migrate attached local disks without \
                 with-local-disks option"
            ));
        }
    }
    for error in &errors {
        info(task, error);
    }
    if errors.is_empty() {
        Ok(found)
    } else {
        Err(ApiError::failed("can't migrate VM - check log"))
    }
}

fn check_volume(
    migration: &Migration,
    pve_state: &PveState,
    file: &str,
    reference: &VolumeReference,
    running: bool,
) -> Result<Option<LocalVolume>, ApiError> {
    let reject = |text: &str| Err(ApiError::failed(text));
    if file.starts_with('/') {
        return if reference.shared { Ok(None) } else { reject("local file/device") };
    }
    if reference.cdrom && file == "cdrom" {
        return reject("can't migrate local cdrom drive");
    }
    if reference.cdrom && file == "none" {
        return Ok(None);
    }
    let unknown = || ApiError::failed(format!("unable to parse volume ID '{file}'"));
    let id = VolumeId::parse(file).ok_or_else(unknown)?;
    let target = migration.check_storage(pve_state, &id)?;
    let from = pve_state.storage(&id.storage)?;
    if from.shared {
        return Ok(None);
    }
    storage::activate(pve_state, &migration.node, &id)?;
    let name = storage::name_of(pve_state, &id)?;
    let volume = LocalVolume {
        role: VolumeRole::of(reference),
        slot: reference.slot.clone(),
        used: storage::find(pve_state, &migration.node, &id)?.map_or(0, |it| it.used.min(it.size)),
        id,
        target,
    };
    if reference.cdrom {
        return if reference.cloudinit { Ok(Some(volume)) } else { reject("local cdrom image") };
    }
    if name.owner != Some(migration.vmid) {
        let owner = name.owner.map(|owner| owner.to_string()).unwrap_or_default();
        return Err(ApiError::failed(format!("owned by other VM (owner = VM {owner})")));
    }
    if !reference.snapshots.is_empty() && !reference.memory {
        if running {
            return reject(
                "online storage migration not possible if non-replicated snapshot exists",
            );
        }
        if from.kind != StorageKind::ZfsPool && name.format != "qcow2" {
            return reject("non-migratable snapshot exists");
        }
    }
    if storage::is_base_in_use(pve_state, &migration.node, &volume.id)? {
        return reject("referenced by linked clone(s)");
    }
    if let Some(base) = name.base {
        let text = format!("can't migrate '{}' as it's a clone of '{}'", volume.id, base.file);
        return Err(ApiError::failed(text));
    }
    Ok(Some(volume))
}

/// Rejects an offline transfer if the two storage types have no common export format.
pub(super) fn check_transfer(pve_state: &PveState, volume: &LocalVolume) -> Result<(), ApiError> {
    let from = pve_state.storage(&volume.id.storage)?.kind;
    let to = pve_state.storage(&volume.target)?.kind;
    let is_raw = storage::name_of(pve_state, &volume.id)?.format == "raw";
    if from == to || is_raw || from.has_files() && to.has_files() {
        return Ok(());
    }
    let (from, to) = (from.name(), to.name());
    Err(ApiError::failed(format!("cannot migrate from storage type '{from}' to '{to}'")))
}

/// Creates the volume on the target host. The name stays the same if it is free there.
pub(super) fn create_on_target(
    pve_state: &mut PveState,
    node: &str,
    target: &str,
    volume: &LocalVolume,
    vmid: u32,
    now: u64,
) -> Result<VolumeId, ApiError> {
    let id = &volume.id;
    let kind = pve_state.storage(&id.storage)?.kind;
    let to = pve_state.storage_on(&volume.target, target)?;
    let Some(source) = storage::find(pve_state, node, id)?.cloned() else {
        return Err(ApiError::failed(format!("volume '{id}' does not exist")));
    };
    let same = VolumeId::new(&volume.target, &id.name);
    if kind == to.kind && storage::find(pve_state, target, &same)?.is_none() {
        if source.used > storage::room(to, target) {
            return Err(ApiError::failed("No space left on device"));
        }
        storage::put(pve_state, target, &same, source)?;
        return Ok(same);
    }
    let name = storage::name_of(pve_state, id)?;
    let format = storage::format_or_default(to, Some(name.format)).to_owned();
    let new = Allocation {
        node: target,
        storage: &volume.target,
        vmid,
        format: Some(&format),
        name: None,
        kib: source.size.div_ceil(1024),
        now,
    };
    let made = storage::alloc(pve_state, &new)?;
    storage::copy(pve_state, (node, id), None, (target, &made))?;
    let can = storage::can(pve_state, &made, Feature::Template, None)?;
    if name.is_base && can {
        return storage::create_base(pve_state, target, &made);
    }
    Ok(made)
}
