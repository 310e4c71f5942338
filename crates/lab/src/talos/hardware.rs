//! The machine that a VM's configuration makes, as the system inside sees it.

use super::disk::{self, Disk, Volumes};
use crate::pve::schema::{self, FormatName};
use crate::pve::storage::VolumeName;
use crate::pve::world::{Config, VolumeId};
use crate::pve::{Release, Site};

#[derive(Clone, Debug, Default)]
pub(crate) struct Hardware {
    pub(crate) host: String,
    /// Of the VM.
    pub(crate) name: String,
    /// SMBIOS: in lower case.
    pub(crate) uuid: String,
    pub(crate) serial: String,
    pub(crate) cpus: u64,
    /// In bytes.
    pub(crate) memory: u64,
    pub(crate) disks: Vec<Disk>,
    pub(crate) cards: Vec<Card>,
    /// PCI devices that are passed through: addresses on the host, with vendor and device ids.
    pub(crate) pci: Vec<PciPassed>,
    /// The VM has a channel for the guest agent.
    pub(crate) has_agent_channel: bool,
    /// Disks and CDs in the order the firmware tries them.
    pub(crate) boot_order: Vec<String>,
}

/// A network card.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Card {
    /// `eth0`, in the order of the slots.
    pub(crate) name: String,
    /// In lower case.
    pub(crate) mac: String,
    pub(crate) bridge: String,
    pub(crate) vlan: Option<u16>,
    pub(crate) is_connected: bool,
    /// Since the machine booted, its cable was put into another bridge or VLAN.
    pub(crate) is_elsewhere: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PciPassed {
    pub(crate) address: String,
    pub(crate) vendor: String,
    pub(crate) device: String,
}

impl Hardware {
    /// Disks and CDs by the names of their devices, which is the order in which Talos goes through the volumes that it
    /// discovered.
    pub(crate) fn discovered(&self) -> Vec<&Disk> {
        let mut disks: Vec<&Disk> = self.disks.iter().collect();
        disks.sort_by(|one, other| one.device.cmp(&other.device));
        disks
    }

    /// What the VM was started with; none if it does not run.
    pub(crate) fn of(site: &Site, vmid: u32) -> Option<Self> {
        let held = site.guests.held(vmid).unwrap_or_default();
        let world = site.world();
        let vm = world.vms.get(&vmid)?;
        let config = &vm.run.as_ref()?.config;
        let host = vm.node.clone();
        let text = |key: &str| config.get(key).map(String::as_str).unwrap_or_default();
        let number = |key: &str, default: u64| {
            config.get(key).and_then(|n| n.parse().ok()).unwrap_or(default)
        };
        let memory = config.get("memory").map_or("512", String::as_str);
        let memory = memory.strip_prefix("current=").unwrap_or(memory);
        let devices = world.hosts.get(&host).map(|host| host.pci.as_slice()).unwrap_or_default();
        let pci = held.iter().filter_map(|address| {
            let device = devices.iter().find(|device| device.address == *address)?;
            Some(PciPassed {
                address: address.clone(),
                vendor: device.vendor.clone(),
                device: device.device.clone(),
            })
        });
        // The name of a linked clone begins with its base, which is not the guest's disk.
        let own = |volume: &VolumeId| {
            let kind = world.storages.get(&volume.storage)?.kind;
            let name = VolumeName::parse(kind, &volume.name).ok()?;
            Some(VolumeId::new(&volume.storage, name.key(kind)))
        };
        let volume_size = |volume: &VolumeId| {
            let storage = world.storages.get(&volume.storage)?;
            Some(storage.volume(&host, &volume.name)?.size)
        };
        let volume_labels = |volume: &VolumeId| {
            let storage = world.storages.get(&volume.storage);
            let found = storage.and_then(|storage| storage.volume(&host, &volume.name));
            let written = found.and_then(|volume| volume.written.as_ref());
            written.map(|written| written.volumes.clone()).unwrap_or_default()
        };
        let volumes = Volumes { own: &own, size: &volume_size, labels: &volume_labels };
        let (uuid, serial) = smbios(text("smbios1"));
        let agent = text("agent");
        Some(Self {
            name: config.get("name").cloned().unwrap_or_else(|| format!("VM{vmid}")),
            uuid,
            serial,
            cpus: number("cores", 1) * number("sockets", 1),
            memory: memory.parse::<u64>().unwrap_or(512) << 20,
            disks: disk::of(world.release, config, &volumes),
            cards: cards(world.release, &vm.config),
            pci: pci.collect(),
            has_agent_channel: agent.split(',').next().is_some_and(|first| {
                matches!(
                    first.strip_prefix("enabled=").unwrap_or(first),
                    "1" | "on" | "yes" | "true"
                )
            }),
            boot_order: crate::pve::vm::boot::order(config.get("boot")),
            host,
        })
    }
}

/// Whether a VM that runs stands still, and its cards. Those are as its configuration has them: what a
/// running machine does not take at once is not there yet.
pub(crate) fn outside(site: &Site, vmid: u32) -> Option<(bool, Vec<Card>)> {
    let world = site.world();
    let vm = world.vms.get(&vmid)?;
    Some((vm.run.as_ref()?.paused, cards(world.release, &vm.config)))
}

/// UUID and serial number.
fn smbios(text: &str) -> (String, String) {
    use base64::Engine as _;
    use base64::engine::general_purpose::STANDARD;

    let field =
        |name: &str| text.split(',').find_map(|part| part.strip_prefix(name)?.strip_prefix('='));
    let serial = field("serial").unwrap_or_default().to_owned();
    let is_encoded = field("base64").is_some_and(|value| value == "1");
    let decoded = || String::from_utf8(STANDARD.decode(&serial).ok()?).ok();
    let serial = if is_encoded { decoded().unwrap_or_default() } else { serial };
    (field("uuid").unwrap_or_default().to_lowercase(), serial)
}

fn cards(release: Release, config: &Config) -> Vec<Card> {
    let nets = (0..32).filter_map(|number| config.get(&format!("net{number}")));
    let parsed = nets.filter_map(|text| schema::format(release, FormatName::Net).parse(text).ok());
    parsed
        .enumerate()
        .map(|(index, fields)| Card {
            name: format!("eth{index}"),
            mac: fields.get("macaddr").unwrap_or_default().to_lowercase(),
            bridge: fields.get("bridge").unwrap_or_default().to_owned(),
            vlan: fields.get("tag").and_then(|tag| tag.parse().ok()),
            is_connected: fields.get("link_down").is_none_or(|down| down == "0"),
            is_elsewhere: false,
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn talos_discovers_disks_before_cds_whatever_their_bus() {
        let slots = [
            ("scsi1", "one:vm-100-cloudinit,media=cdrom"),
            ("ide2", "two:vm-100-cloudinit,media=cdrom"),
            ("sata0", "one:vm-100-disk-1,size=4M"),
            ("virtio0", "one:vm-100-disk-0,size=4G"),
        ];
        let config = slots.map(|(key, value)| (key.to_owned(), value.to_owned())).into();
        let volumes = Volumes { own: &|_| None, size: &|_| None, labels: &|_| vec![] };
        let disks = disk::of(Release::V9, &config, &volumes);
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
