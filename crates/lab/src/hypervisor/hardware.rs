//! Hardware of a VM, built from its config.

use talmox_lab_pve::pve_state::{Config, VolumeId};
use talmox_lab_pve::{Release, Site, VolumeName, boot_order, network_cards};
use talmox_lab_talos::{Card, Hardware, PciPassed};

use super::disk::{self, Volumes};
use super::{volume, written};

/// Hardware that the VM was started with; `None` if the VM does not run.
pub(super) fn of(site: &Site, vmid: u32) -> Option<Hardware> {
    let held = site.guests.held(vmid).unwrap_or_default();
    let pve_state = site.pve_state();
    let vm = pve_state.vms.get(&vmid)?;
    let config = &vm.run.as_ref()?.config;
    let host = vm.node.clone();
    let text = |key: &str| config.get(key).map(String::as_str).unwrap_or_default();
    let number =
        |key: &str, default: u64| config.get(key).and_then(|n| n.parse().ok()).unwrap_or(default);
    let memory = config.get("memory").map_or("512", String::as_str);
    let memory = memory.strip_prefix("current=").unwrap_or(memory);
    let devices = pve_state.hosts.get(&host).map(|host| host.pci.as_slice()).unwrap_or_default();
    let pci = held.iter().filter_map(|address| {
        let device = devices.iter().find(|device| device.address == *address)?;
        Some(PciPassed {
            address: address.clone(),
            vendor: device.vendor.clone(),
            device: device.device.clone(),
        })
    });
    // The volume id of a linked clone starts with its base volume, which is not the disk of the guest.
    let own = |volume: &VolumeId| {
        let kind = pve_state.storages.get(&volume.storage)?.kind;
        let name = VolumeName::parse(kind, &volume.name).ok()?;
        Some(VolumeId::new(&volume.storage, name.key(kind)))
    };
    let volume_size = |id: &VolumeId| Some(volume(&pve_state, &host, id)?.size);
    let volume_labels = |id: &VolumeId| {
        let found = volume(&pve_state, &host, id);
        written(found.and_then(|volume| volume.written.as_ref())).volumes
    };
    let volumes = Volumes { own: &own, size: &volume_size, labels: &volume_labels };
    let (uuid, serial) = smbios(text("smbios1"));
    let agent = text("agent");
    Some(Hardware {
        name: config.get("name").cloned().unwrap_or_else(|| format!("VM{vmid}")),
        uuid,
        serial,
        cpus: number("cores", 1) * number("sockets", 1),
        memory: memory.parse::<u64>().unwrap_or(512) << 20,
        disks: disk::of(pve_state.release, config, &volumes),
        cards: cards(pve_state.release, &vm.config),
        pci: pci.collect(),
        has_agent_channel: agent.split(',').next().is_some_and(|first| {
            matches!(first.strip_prefix("enabled=").unwrap_or(first), "1" | "on" | "yes" | "true")
        }),
        boot_order: boot_order(config.get("boot")),
        host,
    })
}

/// UUID and serial number from the SMBIOS settings.
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

/// Network cards, named in the order of their slots.
pub(super) fn cards(release: Release, config: &Config) -> Vec<Card> {
    let cards = network_cards(release, config).into_iter().enumerate();
    cards
        .map(|(index, card)| Card {
            name: format!("eth{index}"),
            mac: card.mac,
            bridge: card.bridge,
            vlan: card.vlan,
            is_connected: card.is_connected,
            is_elsewhere: false,
        })
        .collect()
}
