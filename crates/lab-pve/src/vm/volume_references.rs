//! Volumes that a VM config refers to.

use std::collections::{BTreeMap, BTreeSet};

use super::drive::{self, Drive};
use crate::ApiError;
use crate::pve_state::{Config, PveState, Vm, VolumeId};
use crate::storage::{self, Feature};

/// Volume of a drive, or the error of Proxmox for a drive without a volume.
pub(crate) fn volume_of(drive: &Drive) -> Result<VolumeId, ApiError> {
    let file = drive.file();
    VolumeId::parse(file)
        .filter(|_| !file.starts_with('/'))
        .ok_or_else(|| ApiError::failed(format!("unable to parse volume ID '{file}'")))
}

/// Whether all disks of a config support a feature. With a snapshot, the disks of the snapshot are checked.
pub(crate) fn all_can(
    pve_state: &PveState,
    config: &Config,
    feature: Feature,
    snapshot: Option<&str>,
) -> Result<bool, ApiError> {
    for drive in drive::drives(config).iter().filter(|drive| !drive.is_cdrom()) {
        let can = match VolumeId::parse(drive.file()) {
            Some(volume) => storage::can(pve_state, &volume, feature, snapshot)?,
            None => false,
        };
        if !can {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Drives, saved memory and unused volumes of a config.
pub(crate) fn all(config: &Config) -> Vec<Drive> {
    let state = config.get("vmstate").and_then(|file| saved_memory(file));
    drive::drives(config).into_iter().chain(state).chain(drive::unused(config)).collect()
}

/// Saved memory (`vmstate`) as a drive without options.
fn saved_memory(file: &str) -> Option<Drive> {
    let mut drive = Drive::parse("unused0", file)?;
    "vmstate".clone_into(&mut drive.key);
    Some(drive)
}

/// Keeps a volume as `unusedN`, unless the config already lists or uses the volume.
pub(crate) fn keep_unused(vm: &mut Vm, volume: &str) -> Option<String> {
    let used = |config: &Config| drive::drives(config).iter().any(|drive| drive.file() == volume);
    if used(&vm.config) || used(&vm.pending) {
        return None;
    }
    add_unused(&mut vm.config, volume)
}

/// Adds a volume as the first free `unusedN`, unless an `unusedN` already lists the volume.
pub(crate) fn add_unused(config: &mut Config, volume: &str) -> Option<String> {
    let keys = || (0..256).map(|n| format!("unused{n}"));
    if keys().any(|key| config.get(&key).is_some_and(|noted| noted == volume)) {
        return None;
    }
    let free = keys().find(|key| !config.contains_key(key))?;
    config.insert(free.clone(), volume.to_owned());
    Some(free)
}

/// Sets a drive in the config, and in the config that QEMU runs with.
pub(crate) fn set_drive(vm: &mut Vm, drive: &Drive) {
    let (key, value) = (drive.key.clone(), drive.print());
    if let Some(run) = &mut vm.run
        && run.config.contains_key(&key)
    {
        run.config.insert(key.clone(), value.clone());
    }
    vm.config.insert(key, value);
}

/// Replaces volumes in all sections of a VM config.
pub(crate) fn replace(vm: &mut Vm, new: &BTreeMap<VolumeId, VolumeId>) {
    replace_in(&mut vm.config, new);
    replace_in(&mut vm.pending, new);
    if let Some(run) = &mut vm.run {
        replace_in(&mut run.config, new);
    }
    for snapshot in vm.snapshots.values_mut() {
        replace_in(&mut snapshot.config, new);
    }
}

fn replace_in(config: &mut Config, new: &BTreeMap<VolumeId, VolumeId>) {
    for mut drive in all(config) {
        let Some(volume) = VolumeId::parse(drive.file()).and_then(|old| new.get(&old)) else {
            continue;
        };
        if drive.key == "vmstate" {
            config.insert(drive.key, volume.to_string());
        } else {
            drive.set("file", volume.to_string());
            config.insert(drive.key.clone(), drive.print());
        }
    }
}

/// Properties of a volume, from all sections of a VM config that refer to it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "independent properties")]
pub(crate) struct VolumeReference {
    /// Whether every reference is a CD drive.
    pub(crate) cdrom: bool,
    pub(crate) cloudinit: bool,
    pub(crate) replicate: bool,
    /// Whether a drive has the option `shared`, which means that every host has the volume.
    pub(crate) shared: bool,
    pub(crate) unused: bool,
    pub(crate) attached: bool,
    pub(crate) snapshots: BTreeSet<String>,
    pub(crate) pending: bool,
    pub(crate) size: Option<u64>,
    pub(crate) memory: bool,
    pub(crate) tpm: bool,
    pub(crate) slot: Option<String>,
}

/// All volumes, paths and media that a VM refers to.
pub(crate) fn references(vm: &Vm) -> BTreeMap<String, VolumeReference> {
    let mut found = BTreeMap::new();
    for drive in all(&vm.config) {
        add_reference(&mut found, &drive, None, false);
    }
    for drive in all(&vm.pending) {
        add_reference(&mut found, &drive, None, true);
    }
    for (name, snapshot) in &vm.snapshots {
        for drive in all(&snapshot.config) {
            add_reference(&mut found, &drive, Some(name), false);
        }
    }
    found
}

fn add_reference(
    found: &mut BTreeMap<String, VolumeReference>,
    drive: &Drive,
    snapshot: Option<&String>,
    pending: bool,
) {
    if drive.file().is_empty() {
        return;
    }
    let known = found
        .entry(drive.file().to_owned())
        .or_insert_with(|| VolumeReference { cdrom: true, ..VolumeReference::default() });
    let is_unused = drive::is_unused(&drive.key);
    known.cdrom &= drive.is_cdrom();
    known.cloudinit |= drive.is_cloudinit();
    known.replicate |= drive.get("replicate") != Some("0");
    known.shared |= drive.get("shared") == Some("1");
    known.unused |= is_unused;
    known.attached |= !known.unused && snapshot.is_none() && !pending;
    known.snapshots.extend(snapshot.cloned());
    known.pending |= pending;
    known.size = known.size.or_else(|| drive.size());
    known.memory |= drive.key == "vmstate";
    known.tpm |= drive.key == "tpmstate0";
    if drive::is_slot(&drive.key) {
        known.slot = Some(drive.key.clone());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pve_state::Snapshot;

    fn config(options: &[(&str, &str)]) -> Config {
        options.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
    }

    fn vm() -> Vm {
        let old =
            config(&[("scsi0", "thin:vm-1-disk-0,size=1G"), ("vmstate", "thin:vm-1-state-a")]);
        Vm {
            config: config(&[
                ("ide2", "none,media=cdrom"),
                ("scsi0", "thin:vm-1-disk-0,size=1G"),
                ("unused3", "thin:vm-1-disk-7"),
            ]),
            pending: config(&[("sata0", "thin:vm-1-disk-2,size=4M")]),
            snapshots: [("before".to_owned(), Snapshot { config: old })].into(),
            ..Vm::default()
        }
    }

    #[test]
    fn references_include_snapshots_and_pending_changes() {
        let found = references(&vm());
        let disk = &found["thin:vm-1-disk-0"];
        assert!(disk.attached && !disk.cdrom && disk.snapshots.contains("before"));
        assert_eq!((disk.size, disk.slot.as_deref()), (Some(1 << 30), Some("scsi0")));
        assert!(found["none"].cdrom);
        assert!(found["thin:vm-1-disk-7"].unused && !found["thin:vm-1-disk-7"].attached);
        assert!(found["thin:vm-1-disk-2"].pending);
        assert!(found["thin:vm-1-state-a"].memory);
    }

    #[test]
    fn volumes_are_replaced_in_all_sections() {
        let mut vm = vm();
        let id = |text| VolumeId::parse(text).unwrap();
        let new = [("thin:vm-1-disk-0", "tank:vm-1-disk-0"), ("thin:vm-1-state-a", "tank:state")];
        replace(&mut vm, &new.map(|(old, new)| (id(old), id(new))).into());
        assert_eq!(vm.config["scsi0"], "tank:vm-1-disk-0,size=1G");
        assert_eq!(vm.snapshots["before"].config["scsi0"], "tank:vm-1-disk-0,size=1G");
        assert_eq!(vm.snapshots["before"].config["vmstate"], "tank:state");
        assert_eq!(vm.config["unused3"], "thin:vm-1-disk-7");
    }

    #[test]
    fn unused_volume_is_listed_once_and_only_if_not_in_use() {
        let mut vm = vm();
        assert_eq!(keep_unused(&mut vm, "thin:vm-1-disk-0"), None);
        assert_eq!(keep_unused(&mut vm, "thin:vm-1-disk-2"), None);
        assert_eq!(keep_unused(&mut vm, "thin:vm-1-disk-7"), None);
        assert_eq!(keep_unused(&mut vm, "thin:vm-1-disk-9").as_deref(), Some("unused0"));
    }
}
