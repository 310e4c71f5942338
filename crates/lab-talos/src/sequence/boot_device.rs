//! Search of the firmware for a boot device, and search of Talos for a cidata volume.

use std::collections::BTreeMap;
use std::path::PathBuf;

use talmox_talos_config::schematic::Schematic;

use super::super::disk::{Disk, slot_order};
use super::super::disk_data::{DiskKey, Installed, Written};
use super::super::hardware::Hardware;
use crate::hypervisor::{DiskContent, Hypervisor};
use crate::image::{Medium, Platform, System, TalosImage, UbuntuImage, cidata_files};

/// Talos that a machine can boot from a drive.
pub(super) struct BootableTalos {
    pub(super) image: TalosImage,
    /// Disk that the machine boots from; `None` for a CD.
    pub(super) disk: Option<DiskKey>,
    pub(super) written: Written,
}

/// Result of the boot device search.
pub(super) enum BootDevice {
    Talos(Box<BootableTalos>),
    Ubuntu(UbuntuImage),
    /// No device is bootable, and the firmware waits forever.
    Nothing,
    /// The machine boots from a CD, but the boot stops because Talos is already installed on a disk.
    Halted,
}

/// Drive with its image, and the data that was written to it.
struct BootDrive {
    key: DiskKey,
    disk: Disk,
    path: Option<PathBuf>,
    written: Written,
}

/// Tries the drives in the boot order. This function reads files, so it must not run in an async task.
pub(super) fn find_boot_device(hypervisor: &dyn Hypervisor, hardware: &Hardware) -> BootDevice {
    let drives = all_drives(hypervisor, hardware);
    let order: Vec<&BootDrive> = if hardware.boot_order.is_empty() {
        // The firmware sorts the drives by slot, because device letters exist only in the kernel.
        let mut all: Vec<&BootDrive> = drives.iter().collect();
        all.sort_by_key(|one| slot_order(&one.disk.slot));
        all
    } else {
        let slots = hardware.boot_order.iter();
        slots.filter_map(|slot| drives.iter().find(|drive| drive.disk.slot == *slot)).collect()
    };
    for one in order {
        match system(one) {
            Some(System::Ubuntu(image)) => return BootDevice::Ubuntu(image),
            Some(System::Talos(image)) if image.medium == Medium::Iso => {
                let is_installed = drives.iter().any(|other| {
                    !other.disk.is_cdrom && matches!(system(other), Some(System::Talos(_)))
                });
                if is_installed {
                    return BootDevice::Halted;
                }
                let written = Written::default();
                return BootDevice::Talos(Box::new(BootableTalos { image, disk: None, written }));
            }
            Some(System::Talos(image)) => {
                let (disk, written) = (Some(one.key.clone()), one.written.clone());
                return BootDevice::Talos(Box::new(BootableTalos { image, disk, written }));
            }
            None => {}
        }
    }
    BootDevice::Nothing
}

/// Files of the first cidata volume, in the order in which Talos discovers volumes.
pub(super) fn cidata(
    hypervisor: &dyn Hypervisor,
    hardware: &Hardware,
) -> Option<BTreeMap<String, Vec<u8>>> {
    let drives = read_drives(hypervisor, hardware, &hardware.discovered());
    drives.iter().find_map(|drive| cidata_files(drive.path.as_ref()?))
}

fn all_drives(hypervisor: &dyn Hypervisor, hardware: &Hardware) -> Vec<BootDrive> {
    read_drives(hypervisor, hardware, &hardware.disks.iter().collect::<Vec<_>>())
}

fn read_drives(
    hypervisor: &dyn Hypervisor,
    hardware: &Hardware,
    disks: &[&Disk],
) -> Vec<BootDrive> {
    let with_volume = disks.iter().filter_map(|disk| Some((*disk, disk.volume.clone()?)));
    with_volume
        .filter_map(|(disk, volume)| {
            let device = disk.device.clone();
            let key = DiskKey { host: hardware.host.clone(), volume, device };
            let DiskContent { image, written } = hypervisor.disk(&key)?;
            Some(BootDrive { key, disk: disk.clone(), path: image, written })
        })
        .collect()
}

fn system(drive: &BootDrive) -> Option<System> {
    if drive.written.is_blank {
        return None;
    }
    match &drive.written.installed {
        Some(installed) => installed.image().map(System::Talos),
        None => System::read(drive.path.as_ref()?),
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
