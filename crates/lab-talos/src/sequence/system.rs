//! What a machine boots from, and what it finds on its other drives.

use std::collections::BTreeMap;
use std::path::PathBuf;

use talmox_talos_config::schematic::Schematic;

use super::super::disk::{Disk, slot_order};
use super::super::hardware::Hardware;
use super::super::written::{DiskKey, Installed, Written};
use crate::hypervisor::{DiskContent, Hypervisor};
use crate::image::{Medium, Platform, System, TalosImage, UbuntuImage, cidata_files};

/// A Talos to boot.
pub(super) struct FoundTalos {
    pub(super) image: TalosImage,
    /// None for a CD.
    pub(super) disk: Option<DiskKey>,
    pub(super) written: Written,
}

/// What the firmware found.
pub(super) enum Found {
    Talos(Box<FoundTalos>),
    Ubuntu(UbuntuImage),
    /// Nothing to boot: the firmware waits, for ever.
    Nothing,
    /// A CD that stops where Talos is installed already.
    Halted,
}

/// A drive as bytes and as what was written to it.
struct Seen {
    key: DiskKey,
    disk: Disk,
    path: Option<PathBuf>,
    written: Written,
}

/// Tries the drives in the order of the firmware. Reads files: not for an async task.
pub(super) fn find(hypervisor: &dyn Hypervisor, hardware: &Hardware) -> Found {
    let seen = look(hypervisor, hardware);
    let order: Vec<&Seen> = if hardware.boot_order.is_empty() {
        // Firmware goes by slots: it knows no letters.
        let mut all: Vec<&Seen> = seen.iter().collect();
        all.sort_by_key(|one| slot_order(&one.disk.slot));
        all
    } else {
        let slots = hardware.boot_order.iter();
        slots.filter_map(|slot| seen.iter().find(|seen| seen.disk.slot == *slot)).collect()
    };
    for one in order {
        match system(one) {
            Some(System::Ubuntu(image)) => return Found::Ubuntu(image),
            Some(System::Talos(image)) if image.medium == Medium::Iso => {
                let is_installed = seen.iter().any(|other| {
                    !other.disk.is_cdrom && matches!(system(other), Some(System::Talos(_)))
                });
                if is_installed {
                    return Found::Halted;
                }
                let written = Written::default();
                return Found::Talos(Box::new(FoundTalos { image, disk: None, written }));
            }
            Some(System::Talos(image)) => {
                let (disk, written) = (Some(one.key.clone()), one.written.clone());
                return Found::Talos(Box::new(FoundTalos { image, disk, written }));
            }
            None => {}
        }
    }
    Found::Nothing
}

/// The files of the first volume that is labelled cidata, in the order in which Talos discovers them.
pub(super) fn cidata(
    hypervisor: &dyn Hypervisor,
    hardware: &Hardware,
) -> Option<BTreeMap<String, Vec<u8>>> {
    let seen = look_at(hypervisor, hardware, &hardware.discovered());
    seen.iter().find_map(|seen| cidata_files(seen.path.as_ref()?))
}

fn look(hypervisor: &dyn Hypervisor, hardware: &Hardware) -> Vec<Seen> {
    look_at(hypervisor, hardware, &hardware.disks.iter().collect::<Vec<_>>())
}

fn look_at(hypervisor: &dyn Hypervisor, hardware: &Hardware, disks: &[&Disk]) -> Vec<Seen> {
    let with_volume = disks.iter().filter_map(|disk| Some((*disk, disk.volume.clone()?)));
    with_volume
        .filter_map(|(disk, volume)| {
            let device = disk.device.clone();
            let key = DiskKey { host: hardware.host.clone(), volume, device };
            let DiskContent { image, written } = hypervisor.disk(&key)?;
            Some(Seen { key, disk: disk.clone(), path: image, written })
        })
        .collect()
}

fn system(seen: &Seen) -> Option<System> {
    if seen.written.is_blank {
        return None;
    }
    match &seen.written.installed {
        Some(installed) => installed.image().map(System::Talos),
        None => System::read(seen.path.as_ref()?),
    }
}

impl Installed {
    pub(crate) fn image(&self) -> Option<TalosImage> {
        let schematic = Schematic::read(&self.schematic).ok()?;
        Some(TalosImage {
            version: self.version.clone(),
            platform: if self.platform == "metal" { Platform::Metal } else { Platform::Nocloud },
            schematic_id: self.schematic_id.clone(),
            schematic,
            secureboot: self.secureboot,
            medium: Medium::Disk,
            meta: BTreeMap::new(),
        })
    }
}
