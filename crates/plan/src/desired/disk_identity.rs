//! Stable names by which a guest finds its disks.
//!
//! Linux assigns `/dev/sda`, `/dev/sdb` and so on in the order in which disks answer. Disks of virtio-scsi answer in another
//! order at most boots, so a config with such names formats the wrong disk. A size does not distinguish two disks of the same
//! size. The id of the drive is stable, and udev creates a link below `/dev/disk/by-id` from it. All supported releases of
//! Talos resolve such links in `machine.install.disk` and `machine.disks`. Since Talos 1.10, the first release with user
//! volumes, `disk.symlinks` lists the links. `disk.serial` is empty for virtio-scsi and SATA, and `disk.wwid` is empty for
//! virtio-scsi and virtio-blk.

use talmox_model::value::DiskBus;

/// The id that Proxmox gives to the drive in this slot.
fn drive_id(bus: DiskBus, index: usize) -> String {
    format!("drive-{}{index}", bus.as_str())
}

/// The `serial` that the drive needs in Proxmox, so that [`link`] exists in the guest.
///
/// A SCSI drive needs no serial, because Proxmox gives it the id that [`drive_id`] returns. So VMs that were created without
/// a serial have the link too. A SCSI drive must not have another serial either: up to machine version 9.2, QEMU uses the
/// serial as the id. From 10.0 on, Proxmox sets the id, so the link would change with an upgrade of Proxmox. A virtio-blk
/// disk without a serial has no link. QEMU numbers SATA disks without a serial by the controllers of the VM.
pub(super) fn serial(bus: DiskBus, index: usize) -> Option<String> {
    match bus {
        DiskBus::Scsi => None,
        DiskBus::Virtio | DiskBus::Sata => Some(drive_id(bus, index)),
    }
}

/// The link to a disk in the guest. Index 0 is the system disk.
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
