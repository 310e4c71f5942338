//! The machine that a VM's configuration makes, as the system inside sees it.

use crate::pve::schema::{self, FormatName};
use crate::pve::vm::drive::{self, Source};
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

/// A disk or a CD.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Disk {
    /// The slot: `scsi0`.
    pub(crate) slot: String,
    /// `/dev/sda`.
    pub(crate) device: String,
    pub(crate) is_cdrom: bool,
    pub(crate) volume: Option<VolumeId>,
    pub(crate) size: u64,
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
        let volume_size = |volume: &VolumeId| {
            let storage = world.storages.get(&volume.storage)?;
            Some(storage.volume(&host, &volume.name)?.size)
        };
        let (uuid, serial) = smbios(text("smbios1"));
        let agent = text("agent");
        Some(Self {
            name: config.get("name").cloned().unwrap_or_else(|| format!("VM{vmid}")),
            uuid,
            serial,
            cpus: number("cores", 1) * number("sockets", 1),
            memory: memory.parse::<u64>().unwrap_or(512) << 20,
            disks: disks(config, &volume_size),
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

fn disks(config: &Config, size: &dyn Fn(&VolumeId) -> Option<u64>) -> Vec<Disk> {
    let (mut scsi, mut virtio, mut cds) = (0_u8, 0_u8, 0_u8);
    let mut drives = drive::drives(config);
    drives.sort_by_key(|drive| slot_order(&drive.key));
    let mut disks = vec![];
    for drive in drives {
        if matches!(drive.key.as_str(), "efidisk0" | "tpmstate0") {
            continue;
        }
        let letter = |count: &mut u8| {
            let letter = char::from(b'a' + (*count).min(25));
            *count += 1;
            letter
        };
        let device = if drive.is_cdrom() {
            cds += 1;
            format!("/dev/sr{}", cds - 1)
        } else if drive.key.starts_with("virtio") {
            format!("/dev/vd{}", letter(&mut virtio))
        } else {
            format!("/dev/sd{}", letter(&mut scsi))
        };
        let volume = match drive.source() {
            Source::Volume(volume) => Some(volume),
            _ => None,
        };
        let size = volume.as_ref().and_then(size).or(drive.size()).unwrap_or_default();
        disks.push(Disk { device, is_cdrom: drive.is_cdrom(), volume, size, slot: drive.key });
    }
    disks
}

/// SCSI disks come before SATA and IDE ones, each by its number.
fn slot_order(slot: &str) -> (u8, u32) {
    let digits = slot.find(|c: char| c.is_ascii_digit()).unwrap_or(slot.len());
    let (bus, number) = slot.split_at(digits);
    let rank = ["scsi", "sata", "ide", "virtio"].iter().position(|known| *known == bus);
    (u8::try_from(rank.unwrap_or(9)).unwrap_or(9), number.parse().unwrap_or_default())
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
