//! Disks and CD drives of a machine. Ids and paths stay the same, but device letters can change at each boot.

use talmox_clock::Chance;

/// Disk or CD drive of a machine.
#[expect(clippy::struct_excessive_bools, reason = "independent facts about a disk")]
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Disk {
    /// Slot of the VM configuration, such as `scsi0`.
    pub slot: String,
    /// Device name in the kernel, such as `/dev/sda`. The name is valid for one boot.
    pub device: String,
    pub is_cdrom: bool,
    /// Volume id in the hypervisor.
    pub volume: Option<String>,
    pub size: u64,
    /// Serial number that QEMU shows to the guest.
    pub serial: String,
    /// Device id of a SCSI drive. udev builds a symlink from it.
    pub device_id: String,
    pub is_ssd: bool,
    /// Position in the order in which the kernel found the disks.
    pub sequence: u64,
    /// Labels of the partitions that Talos created for the volumes of a config.
    pub labels: Vec<String>,
    pub is_q35: bool,
    /// Whether the hypervisor generated this drive for cloud-init.
    pub is_cloudinit: bool,
}

/// Bus that a disk is attached to.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Bus {
    Scsi,
    Virtio,
    Sata,
    Ide,
}

/// Draws the order in which the kernel finds the disks, and assigns the device names in that order. The order is random, as on
/// a real machine.
pub(super) fn enumerate(disks: &mut [Disk], chance: &mut Chance) {
    // The disks are sorted first, so that the drawn order depends only on the seed.
    disks.sort_by_key(|disk| slot_order(&disk.slot));
    let mut order: Vec<usize> = (0..disks.len()).collect();
    for last in (1..order.len()).rev() {
        let end = u64::try_from(last + 1).unwrap_or_default();
        order.swap(last, usize::try_from(chance.below(end)).unwrap_or_default());
    }
    name(disks, &order);
    disks.sort_by(|one, other| one.device.cmp(&other.device));
}

pub(super) fn name(disks: &mut [Disk], order: &[usize]) {
    let (mut sd, mut vd, mut sr) = (0_u8, 0_u8, 0_u8);
    let next = |count: &mut u8| {
        *count += 1;
        *count - 1
    };
    let letter = |number: u8| char::from(b'a' + number.min(25));
    // Sequence number 1 is the loop device of the root file system.
    for (sequence, at) in (2_u64..).zip(order) {
        let disk = &mut disks[*at];
        disk.sequence = sequence;
        disk.device = match (disk.is_cdrom, disk.bus()) {
            (true, _) => format!("/dev/sr{}", next(&mut sr)),
            (_, Bus::Virtio) => format!("/dev/vd{}", letter(next(&mut vd))),
            _ => format!("/dev/sd{}", letter(next(&mut sd))),
        };
    }
}

/// Sort key for the boot order of the firmware: SCSI, then SATA, then IDE disks, each sorted by number.
pub(super) fn slot_order(slot: &str) -> (u8, u32) {
    let digits = slot.find(|c: char| c.is_ascii_digit()).unwrap_or(slot.len());
    let (bus, number) = slot.split_at(digits);
    let rank = ["scsi", "sata", "ide", "virtio"].iter().position(|known| *known == bus);
    (u8::try_from(rank.unwrap_or(9)).unwrap_or(9), number.parse().unwrap_or_default())
}

impl Disk {
    fn bus(&self) -> Bus {
        match self.slot.trim_end_matches(|c: char| c.is_ascii_digit()) {
            "virtio" => Bus::Virtio,
            "sata" => Bus::Sata,
            "ide" => Bus::Ide,
            _ => Bus::Scsi,
        }
    }

    fn number(&self) -> u32 {
        slot_order(&self.slot).1
    }

    /// Id of the disk in Talos resources, such as `sda`.
    pub(crate) fn id(&self) -> &str {
        self.device.trim_start_matches("/dev/")
    }

    pub(crate) fn model(&self) -> &'static str {
        match (self.is_cdrom, self.bus()) {
            (true, _) => "QEMU DVD-ROM",
            (_, Bus::Virtio) => "",
            _ => "QEMU HARDDISK",
        }
    }

    pub(crate) fn modalias(&self) -> &'static str {
        match (self.is_cdrom, self.bus()) {
            (true, _) => "scsi:t-0x05",
            (_, Bus::Virtio) => "virtio:d00000002v00001AF4",
            _ => "scsi:t-0x00",
        }
    }

    pub(crate) fn transport(&self) -> &'static str {
        match self.bus() {
            Bus::Scsi | Bus::Virtio => "virtio",
            Bus::Ide if !self.is_q35 => "ata",
            Bus::Sata | Bus::Ide => "sata",
        }
    }

    /// Whether the disk is rotational. QEMU reports every disk as rotational that does not have `ssd=1`.
    pub(crate) fn is_rotational(&self) -> bool {
        !self.is_ssd
    }

    /// Serial number that the kernel shows. The kernel shows it only for virtio-blk disks.
    pub(crate) fn shown_serial(&self) -> &str {
        if self.bus() == Bus::Virtio { &self.serial } else { "" }
    }

    /// WWID that the kernel builds. Only SATA and IDE disks have one, because the kernel ignores the kind of id that
    /// virtio-scsi drives have.
    pub(crate) fn wwid(&self) -> String {
        match (self.is_cdrom, self.bus()) {
            (false, Bus::Sata | Bus::Ide) => {
                format!("t10.ATA     {:<40}{}", self.model(), self.serial)
            }
            _ => String::new(),
        }
    }

    /// Default serial number in QEMU. QEMU numbers the units of all ATA controllers, with two units per port, starting with the
    /// controller of the chipset.
    pub fn default_serial(&self) -> String {
        let number = self.number();
        match self.bus() {
            Bus::Ide => format!("QM{:05}", number + 1),
            Bus::Sata => format!("QM{:05}", if self.is_q35 { 12 } else { 4 } + number * 2 + 1),
            Bus::Scsi | Bus::Virtio => String::new(),
        }
    }

    pub(crate) fn bus_path(&self) -> String {
        let number = self.number();
        match self.bus() {
            Bus::Virtio => {
                let (slot, nth) = (10 + number, 4 + number);
                format!("/pci0000:00/0000:00:{slot:02x}.0/virtio{nth}")
            }
            Bus::Sata | Bus::Ide => {
                let (address, host) = (self.controller(), number + 1);
                format!("/pci0000:00/{address}/ata{host}/host{host}/target{host}:0:0/{host}:0:0:0")
            }
            Bus::Scsi => {
                format!("/pci0000:00/0000:00:05.0/virtio3/host2/target2:0:0/2:0:0:{number}")
            }
        }
    }

    fn controller(&self) -> &'static str {
        match (self.bus(), self.is_q35) {
            (Bus::Sata, _) => "0000:00:07.0",
            (_, true) => "0000:00:1f.2",
            _ => "0000:00:01.1",
        }
    }

    /// Symlinks that udev creates, sorted by name.
    pub fn symlinks(&self) -> Vec<String> {
        let number = self.number();
        let model = self.model().replace(' ', "_");
        let mut links = vec![format!("by-diskseq/{}", self.sequence)];
        match self.bus() {
            Bus::Scsi => {
                links.push(format!("by-id/scsi-0QEMU_{model}_{}", self.device_id));
                links.push(format!("by-path/pci-0000:00:05.0-scsi-0:0:0:{number}"));
            }
            Bus::Virtio => {
                // Without a serial number, udev creates no by-id link.
                if !self.serial.is_empty() {
                    links.push(format!("by-id/virtio-{}", self.serial));
                }
                for prefix in ["pci", "virtio-pci"] {
                    links.push(format!("by-path/{prefix}-0000:00:{:02x}.0", 10 + number));
                }
            }
            Bus::Sata | Bus::Ide => {
                links.push(format!("by-id/ata-{model}_{}", self.serial));
                for end in ["", ".0"] {
                    let port = number + 1;
                    links.push(format!("by-path/pci-{}-ata-{port}{end}", self.controller()));
                }
            }
        }
        if self.is_cloudinit {
            links.push("by-label/cidata".to_owned());
        }
        links.sort();
        links.into_iter().map(|link| format!("/dev/disk/{link}")).collect()
    }

    /// Whether a path is the device name of this disk, or one of its symlinks.
    pub(crate) fn is_at(&self, path: &str) -> bool {
        self.device == path || self.symlinks().iter().any(|link| link == path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn links(disk: &Disk) -> Vec<String> {
        let links = disk.symlinks().into_iter();
        links.filter_map(|link| Some(link.strip_prefix("/dev/disk/by-id/")?.to_owned())).collect()
    }

    #[test]
    fn device_letters_vary_by_boot_and_symlinks_do_not() {
        let disk = |slot: &str| Disk {
            slot: slot.to_owned(),
            device_id: format!("drive-{slot}"),
            ..Disk::default()
        };
        let mut seen = std::collections::BTreeSet::new();
        for boot in 0..20 {
            let mut disks = ["scsi0", "scsi1", "scsi30"].map(disk);
            let ids: Vec<_> = disks.iter().map(|disk| (disk.slot.clone(), links(disk))).collect();
            enumerate(&mut disks, &mut Chance::new(7).of("disks/1", boot));
            let devices: Vec<&str> = disks.iter().map(|disk| disk.device.as_str()).collect();
            assert_eq!(devices, ["/dev/sda", "/dev/sdb", "/dev/sdc"]);
            for (slot, link) in ids {
                let disk = disks.iter().find(|disk| disk.slot == slot).unwrap();
                assert_eq!(links(disk), link);
            }
            seen.insert(disks.iter().map(|disk| disk.slot.clone()).collect::<Vec<_>>());
        }
        assert!(seen.len() > 3, "{seen:?}");
    }
}
