//! Hardware of a VM from the view of its guest.

use super::disk::Disk;

#[derive(Clone, Debug, Default)]
pub struct Hardware {
    pub host: String,
    /// Name of the VM.
    pub name: String,
    /// SMBIOS UUID in lower case.
    pub uuid: String,
    pub serial: String,
    pub cpus: u64,
    /// Memory in bytes.
    pub memory: u64,
    pub disks: Vec<Disk>,
    pub cards: Vec<Card>,
    /// PCI devices that are passed through: their addresses on the host, with vendor and device ids.
    pub pci: Vec<PciPassed>,
    /// Whether the VM has a channel for the guest agent.
    pub has_agent_channel: bool,
    /// Slots of the disks and CD drives, in the boot order of the firmware.
    pub boot_order: Vec<String>,
}

/// Network card of a VM.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Card {
    /// Interface name, such as `eth0`. The names are in the order of the slots.
    pub name: String,
    /// MAC address in lower case.
    pub mac: String,
    pub bridge: String,
    pub vlan: Option<u16>,
    pub is_connected: bool,
    /// Whether the card was moved to another bridge or VLAN since the machine booted.
    pub is_elsewhere: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PciPassed {
    pub address: String,
    pub vendor: String,
    pub device: String,
}

impl Hardware {
    /// Disks and CD drives, sorted by device name. Talos discovers volumes in this order.
    pub(crate) fn discovered(&self) -> Vec<&Disk> {
        let mut disks: Vec<&Disk> = self.disks.iter().collect();
        disks.sort_by(|one, other| one.device.cmp(&other.device));
        disks
    }
}

#[cfg(test)]
mod tests {
    use super::super::disk;
    use super::*;

    #[test]
    fn disks_are_discovered_before_cds_on_any_bus() {
        let slots = [("scsi1", true), ("ide2", true), ("sata0", false), ("virtio0", false)];
        let mut disks: Vec<Disk> = slots
            .into_iter()
            .map(|(slot, is_cdrom)| Disk { slot: slot.to_owned(), is_cdrom, ..Disk::default() })
            .collect();
        disk::name(&mut disks, &[0, 2, 1, 3]);
        let hardware = Hardware { disks, ..Hardware::default() };
        let found: Vec<(&str, &str)> = hardware
            .discovered()
            .iter()
            .map(|disk| (disk.device.as_str(), disk.slot.as_str()))
            .collect();
        let wanted = [
            ("/dev/sda", "sata0"),
            ("/dev/sr0", "scsi1"),
            ("/dev/sr1", "ide2"),
            ("/dev/vda", "virtio0"),
        ];
        assert_eq!(found, wanted);
    }
}
