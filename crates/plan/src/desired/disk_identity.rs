//! Names by which a guest finds its disks in any enumeration order.
//!
//! Linux hands out `/dev/sda`, `/dev/sdb`, … in the order in which disks answer, and disks of
//! virtio-scsi answer in another order at most boots: a config that names letters formats the
//! wrong disk. A size does not tell two equal disks apart. What stays is the drive's own id,
//! which udev turns into a link below `/dev/disk/by-id`. All supported releases of Talos resolve
//! such links in `machine.install.disk` and `machine.disks`, and since 1.10, the first release
//! with user volumes, `disk.symlinks` lists them. (`disk.serial` is empty for virtio-scsi and
//! SATA, and `disk.wwid` for both kinds of virtio.)

use talmox_model::value::DiskBus;

/// The id that Proxmox gives to the drive in this slot.
fn drive_id(bus: DiskBus, index: usize) -> String {
    format!("drive-{}{index}", bus.as_str())
}

/// The `serial` that the drive needs in Proxmox, so that [`link`] exists in the guest.
///
/// SCSI drives need none: Proxmox gives each the id that [`drive_id`] returns, so VMs that were
/// created without a serial have the link too. They must not have another one either: QEMU takes
/// the serial as the id up to machine version 9.2, and Proxmox overrides it from 10.0 on, so the
/// link would change with an upgrade of Proxmox. Disks of virtio-blk without a serial have no
/// link at all, and QEMU numbers those of SATA by the controllers that the VM happens to have.
pub(super) fn serial(bus: DiskBus, index: usize) -> Option<String> {
    match bus {
        DiskBus::Scsi => None,
        DiskBus::Virtio | DiskBus::Sata => Some(drive_id(bus, index)),
    }
}

/// The link to a disk in the guest; index 0 is the system disk.
pub(super) fn link(bus: DiskBus, index: usize) -> String {
    let prefix = match bus {
        DiskBus::Scsi => "scsi-0QEMU_QEMU_HARDDISK_",
        DiskBus::Virtio => "virtio-",
        DiskBus::Sata => "ata-QEMU_HARDDISK_",
    };
    format!("/dev/disk/by-id/{prefix}{}", drive_id(bus, index))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn serials_fit_into_what_proxmox_accepts() {
        for bus in [DiskBus::Virtio, DiskBus::Sata] {
            let serial = serial(bus, 15).unwrap();
            let is_plain = |c: char| c.is_ascii_alphanumeric() || c == '-';
            assert!(serial.len() <= 20 && serial.chars().all(is_plain), "{serial}");
            assert!(link(bus, 15).ends_with(&serial));
        }
    }

    #[test]
    fn scsi_drives_are_found_by_the_id_that_proxmox_gives_them() {
        assert_eq!(serial(DiskBus::Scsi, 1), None);
        let expected = "/dev/disk/by-id/scsi-0QEMU_QEMU_HARDDISK_drive-scsi1";
        assert_eq!(link(DiskBus::Scsi, 1), expected);
    }
}
