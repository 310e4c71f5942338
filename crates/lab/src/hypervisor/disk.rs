//! Disks and CDs of a VM, built from its config, with the ids that Proxmox and QEMU assign.

use talmox_lab_pve::pve_state::{Config, VolumeId};
use talmox_lab_pve::{Drive, DriveSource, Release, drives};
use talmox_lab_talos::Disk;

/// Access to volumes and to the data that guests wrote to them.
pub(super) struct Volumes<'a> {
    /// Returns the volume of the guest for a volume id in a config. The volume id of a linked clone starts with the name of its
    /// base volume.
    pub(super) own: &'a dyn Fn(&VolumeId) -> Option<VolumeId>,
    pub(super) size: &'a dyn Fn(&VolumeId) -> Option<u64>,
    pub(super) labels: &'a dyn Fn(&VolumeId) -> Vec<String>,
}

/// All disks and CDs of a VM. The simulated guest kernel assigns their device names later.
pub(super) fn of(release: Release, config: &Config, volumes: &Volumes<'_>) -> Vec<Disk> {
    let mut drives = drives(config);
    drives.retain(|drive| !matches!(drive.key.as_str(), "efidisk0" | "tpmstate0"));
    let is_q35 = config.get("machine").is_some_and(|machine| machine.contains("q35"));
    drives.into_iter().map(|drive| disk(release, is_q35, drive, volumes)).collect()
}

fn disk(release: Release, is_q35: bool, drive: Drive, volumes: &Volumes<'_>) -> Disk {
    let volume = match drive.source() {
        DriveSource::Volume(volume) => Some((volumes.own)(&volume).unwrap_or(volume)),
        _ => None,
    };
    let size = volume.as_ref().and_then(volumes.size).or(drive.size()).unwrap_or_default();
    let labels = volume.as_ref().map(volumes.labels).unwrap_or_default();
    let own = drive.get("serial").map(decoded);
    // Proxmox VE 9 (machine version 10.0 and later) always sets the device id. In Proxmox VE 8, a configured serial replaces
    // it.
    let id = format!("drive-{}", drive.key);
    let device_id = match &own {
        Some(serial) if release == Release::V8 => serial.clone(),
        _ => id,
    };
    let mut disk = Disk {
        is_cdrom: drive.is_cdrom(),
        is_cloudinit: volume.as_ref().is_some_and(|volume| volume.name.contains("cloudinit")),
        volume: volume.map(|volume| volume.to_string()),
        size,
        labels,
        device_id,
        is_ssd: drive.get("ssd").is_some_and(|ssd| ssd == "1"),
        slot: drive.key,
        is_q35,
        ..Disk::default()
    };
    disk.serial = own.unwrap_or_else(|| disk.default_serial());
    disk
}

/// Decodes a serial, which Proxmox stores URL-encoded.
fn decoded(text: &str) -> String {
    let mut bytes = vec![];
    let mut rest = text.as_bytes();
    while let [first, tail @ ..] = rest {
        let pair = tail.get(..2).and_then(|pair| std::str::from_utf8(pair).ok());
        let byte = pair.and_then(|pair| u8::from_str_radix(pair, 16).ok());
        if let Some(byte) = byte.filter(|_| *first == b'%') {
            bytes.push(byte);
            rest = &tail[2..];
        } else {
            bytes.push(*first);
            rest = tail;
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn machine(release: Release, options: &[(&str, &str)]) -> Vec<Disk> {
        let config: Config =
            options.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
        of(
            release,
            &config,
            &Volumes { own: &|_| None, size: &|_| Some(5 << 30), labels: &|_| vec![] },
        )
    }

    fn links(disk: &Disk) -> Vec<String> {
        let links = disk.symlinks().into_iter();
        links.filter_map(|link| Some(link.strip_prefix("/dev/disk/by-id/")?.to_owned())).collect()
    }

    #[test]
    fn disk_ids_match_proxmox_and_udev() {
        for (machine_type, slot, drive, link) in [
            ("q35", "scsi1", "lvm:vm-1-disk-0", "scsi-0QEMU_QEMU_HARDDISK_drive-scsi1"),
            ("q35", "scsi1", "lvm:vm-1-disk-0,serial=x", "scsi-0QEMU_QEMU_HARDDISK_drive-scsi1"),
            ("q35", "virtio1", "lvm:vm-1-disk-0,serial=drive-virtio1", "virtio-drive-virtio1"),
            ("q35", "sata1", "lvm:vm-1-disk-0", "ata-QEMU_HARDDISK_QM00015"),
            ("pc", "sata1", "lvm:vm-1-disk-0", "ata-QEMU_HARDDISK_QM00007"),
            ("pc", "sata1", "lvm:vm-1-disk-0,serial=a%2Db", "ata-QEMU_HARDDISK_a-b"),
            ("pc", "ide2", "lvm:vm-1-cloudinit,media=cdrom", "ata-QEMU_DVD-ROM_QM00003"),
        ] {
            let disks = machine(Release::V9, &[("machine", machine_type), (slot, drive)]);
            assert_eq!(links(&disks[0]), [link], "{slot}: {drive}");
        }
        let disks = machine(Release::V8, &[("scsi1", "lvm:vm-1-disk-0,serial=x")]);
        assert_eq!(links(&disks[0]), ["scsi-0QEMU_QEMU_HARDDISK_x"]);
        assert!(links(&machine(Release::V9, &[("virtio1", "lvm:vm-1-disk-0")])[0]).is_empty());
    }
}
