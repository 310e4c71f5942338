//! The volumes that a VM refers to, wherever its configuration names them.

use std::collections::{BTreeMap, BTreeSet};

use super::drive::{self, Drive};
use crate::Refusal;
use crate::storage::{self, Feature};
use crate::world::{Config, Vm, VolumeId, World};

/// The volume of a drive, or what is said of a drive that has none on a storage.
pub(crate) fn volume_of(drive: &Drive) -> Result<VolumeId, Refusal> {
    let file = drive.file();
    VolumeId::parse(file)
        .filter(|_| !file.starts_with('/'))
        .ok_or_else(|| Refusal::failed(format!("unable to parse volume ID '{file}'")))
}

/// Whether every disk of a configuration, or every snapshot of one, can do this.
pub(crate) fn all_can(
    world: &World,
    config: &Config,
    feature: Feature,
    snapshot: Option<&str>,
) -> Result<bool, Refusal> {
    for drive in drive::drives(config).iter().filter(|drive| !drive.is_cdrom()) {
        let can = match VolumeId::parse(drive.file()) {
            Some(volume) => storage::can(world, &volume, feature, snapshot)?,
            None => false,
        };
        if !can {
            return Ok(false);
        }
    }
    Ok(true)
}

/// A configuration's drives, the saved memory if it has some, and what it keeps aside.
pub(crate) fn all(config: &Config) -> Vec<Drive> {
    let state = config.get("vmstate").and_then(|file| saved_memory(file));
    drive::drives(config).into_iter().chain(state).chain(drive::unused(config)).collect()
}

/// Memory that was saved is a volume without options.
fn saved_memory(file: &str) -> Option<Drive> {
    let mut drive = Drive::parse("unused0", file)?;
    "vmstate".clone_into(&mut drive.key);
    Some(drive)
}

/// Keeps a volume with the VM as `unusedN`, unless it is kept or used already.
pub(crate) fn keep_unused(vm: &mut Vm, volume: &str) -> Option<String> {
    let used = |config: &Config| drive::drives(config).iter().any(|drive| drive.file() == volume);
    if used(&vm.config) || used(&vm.pending) {
        return None;
    }
    add_unused(&mut vm.config, volume)
}

/// Notes a volume in the first `unusedN` that is free, unless it is noted in another.
pub(crate) fn add_unused(config: &mut Config, volume: &str) -> Option<String> {
    let keys = || (0..256).map(|n| format!("unused{n}"));
    if keys().any(|key| config.get(&key).is_some_and(|noted| noted == volume)) {
        return None;
    }
    let free = keys().find(|key| !config.contains_key(key))?;
    config.insert(free.clone(), volume.to_owned());
    Some(free)
}

/// Notes a drive that is another than before, for the guest that runs with it too.
pub(crate) fn set_drive(vm: &mut Vm, drive: &Drive) {
    let (key, value) = (drive.key.clone(), drive.print());
    if let Some(run) = &mut vm.run
        && run.config.contains_key(&key)
    {
        run.config.insert(key.clone(), value.clone());
    }
    vm.config.insert(key, value);
}

/// Puts other volumes in the place of some, in all parts of the VM's configuration.
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

/// What is known of one volume of a VM from all the places that name it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "facts that do not depend on each other")]
pub(crate) struct Reference {
    /// No place has it as a disk.
    pub(crate) cdrom: bool,
    pub(crate) cloudinit: bool,
    pub(crate) replicate: bool,
    /// Somebody says that every host has it.
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

/// Every volume, path or medium that the VM names, with what is known of it.
pub(crate) fn references(vm: &Vm) -> BTreeMap<String, Reference> {
    let mut found = BTreeMap::new();
    for drive in all(&vm.config) {
        note(&mut found, &drive, None, false);
    }
    for drive in all(&vm.pending) {
        note(&mut found, &drive, None, true);
    }
    for (name, snapshot) in &vm.snapshots {
        for drive in all(&snapshot.config) {
            note(&mut found, &drive, Some(name), false);
        }
    }
    found
}

fn note(
    found: &mut BTreeMap<String, Reference>,
    drive: &Drive,
    snapshot: Option<&String>,
    pending: bool,
) {
    if drive.file().is_empty() {
        return;
    }
    let known = found
        .entry(drive.file().to_owned())
        .or_insert_with(|| Reference { cdrom: true, ..Reference::default() });
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
    use crate::world::Snapshot;

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
    fn every_place_is_looked_at() {
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
    fn volumes_are_replaced_everywhere() {
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
    fn a_volume_is_kept_once_and_only_if_it_is_not_used() {
        let mut vm = vm();
        assert_eq!(keep_unused(&mut vm, "thin:vm-1-disk-0"), None);
        assert_eq!(keep_unused(&mut vm, "thin:vm-1-disk-2"), None);
        assert_eq!(keep_unused(&mut vm, "thin:vm-1-disk-7"), None);
        assert_eq!(keep_unused(&mut vm, "thin:vm-1-disk-9").as_deref(), Some("unused0"));
    }
}
