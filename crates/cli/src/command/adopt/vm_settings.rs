//! VMs of the nodes, and the inventory settings for the options of a VM.

use std::fmt::Write as _;

use talmox_pve::api::cluster::{self, Guest};
use talmox_pve::api::qemu::{self, Vm};
use talmox_pve::config::VmConfig;
use talmox_pve::property::{BootOrder, Drive, GIB, HostPci, Net, PciSource};
use talmox_pve::{Client, PveError};

use super::running_node::RunningNode;

/// Buses that a system disk may be attached to.
const BUSES: [&str; 3] = ["scsi", "virtio", "sata"];

/// VM with its config.
#[derive(Clone, Debug)]
pub(super) struct FoundVm {
    pub(super) guest: Guest,
    pub(super) config: VmConfig,
}

impl FoundVm {
    pub(super) fn vm(&self) -> Vm {
        Vm::new(&self.guest.node, self.guest.vmid)
    }

    /// SMBIOS UUID, in lower case.
    pub(super) fn uuid(&self) -> Option<String> {
        self.config.smbios().uuid
    }

    fn has_card(&self, mac: &str) -> bool {
        let mut nets = self.config.iter().filter(|(key, _)| is_numbered(key, "net"));
        nets.any(|(_, value)| {
            Net::parse(value).mac.is_some_and(|own| own.lower_case().eq_ignore_ascii_case(mac))
        })
    }

    /// Whether this is the VM of a node. Compares the UUIDs, or the MAC addresses if one of the UUIDs is unknown.
    pub(super) fn is_of(&self, node: &RunningNode) -> bool {
        match (self.uuid(), &node.machine.uuid) {
            (Some(own), Some(uuid)) => own.eq_ignore_ascii_case(uuid),
            _ => node.machine.macs.iter().any(|mac| self.has_card(mac)),
        }
    }
}

/// Reads the running VMs. VMs whose configs the token may not read are omitted.
pub(super) async fn read(client: &Client) -> Result<Vec<FoundVm>, PveError> {
    let guests = client.send(&cluster::resources()).await?.guests;
    let mut found = vec![];
    for guest in guests {
        if !guest.is_vm || guest.template || guest.status != "running" {
            continue;
        }
        let vm = Vm::new(&guest.node, guest.vmid);
        match client.send(&qemu::config(&vm)).await {
            Ok(config) => found.push(FoundVm { guest, config }),
            Err(PveError::Rejected(_)) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(found)
}

/// Keys and values of a node in the inventory that describe its VM. The error is the reason why the inventory cannot
/// describe the VM.
pub(super) fn settings(found: &FoundVm) -> Result<Vec<(&'static str, String)>, String> {
    let FoundVm { guest, config } = found;
    let flag = |key: &str| {
        config.get(key).is_some_and(|value| matches!(value, "1" | "on" | "true" | "yes"))
    };
    let bus = BUSES.into_iter().find(|bus| disk(config, &format!("{bus}0")).is_some());
    let bus =
        bus.ok_or("its VM has no disk scsi0, virtio0 or sata0, which must be the system disk")?;
    let disks = disks(config, bus)?;
    let system = &disks[0];
    let mut keys = vec![
        ("vmid", guest.vmid.to_string()),
        ("host", guest.node.to_string()),
        ("cores", cores(config).ok_or("the cores of its VM are unknown")?.to_string()),
        ("memory", memory(config).ok_or("the memory of its VM is unknown")?.to_string()),
        ("disk", format!("{}G", gib(system))),
        ("disk_bus", bus.to_owned()),
        ("cpu_type", quoted(config.get("cpu").unwrap_or("kvm64"))),
        ("numa", flag("numa").to_string()),
        ("machine_type", machine_type(config).to_owned()),
        ("bios", if config.get("bios") == Some("ovmf") { "ovmf" } else { "seabios" }.to_owned()),
        ("tpm", config.get("tpmstate0").is_some().to_string()),
        ("ssd", (system.options.get("ssd") == Some("1")).to_string()),
        ("discard", (system.options.get("discard") == Some("on")).to_string()),
        ("onboot", flag("onboot").to_string()),
        ("protection", flag("protection").to_string()),
    ];
    keys.extend(sockets(config).map(|sockets| ("sockets", sockets.to_owned())));
    keys.extend(boot_order(config, bus).map(|order| ("boot_order", order)));
    keys.extend(system.storage().map(|storage| ("datastore", storage.to_string())));
    keys.extend(guest.pool.as_ref().map(|pool| ("pool", pool.to_string())));
    if disks.len() > 1 {
        let further = disks[1..].iter().map(|disk| {
            let storage = disk.storage().map(|storage| format!(", datastore: {storage}"));
            format!("{{size: {}G{}}}", gib(disk), storage.unwrap_or_default())
        });
        keys.push(("disks", format!("[{}]", further.collect::<Vec<_>>().join(", "))));
    }
    keys.extend(cards(config)?);
    keys.extend(gpu(config)?);
    Ok(keys)
}

fn machine_type(config: &VmConfig) -> &'static str {
    if config.get("machine").is_some_and(|machine| machine.contains("q35")) {
        "q35"
    } else {
        "i440fx"
    }
}

fn cores(config: &VmConfig) -> Option<u32> {
    config.get("cores").unwrap_or("1").parse().ok()
}

/// Number of CPU sockets, if it is not the default.
fn sockets(config: &VmConfig) -> Option<&str> {
    config.get("sockets").filter(|sockets| *sockets != "1")
}

/// The boot order, if it is not the system disk alone. None for a boot order with a CD drive, which the inventory cannot name.
fn boot_order(config: &VmConfig, bus: &str) -> Option<String> {
    let devices = BootOrder::parse(config.get("boot").unwrap_or_default()).0;
    let is_named = |device: &String| is_numbered(device, bus) || is_numbered(device, "net");
    let is_default = devices == [format!("{bus}0")];
    let is_described = !devices.is_empty() && devices.iter().all(is_named);
    (is_described && !is_default).then(|| format!("[{}]", devices.join(", ")))
}

/// Memory of a VM in MiB. Some versions of Proxmox write `current=4096`.
fn memory(config: &VmConfig) -> Option<u64> {
    let text = config.get("memory").unwrap_or("512");
    text.strip_prefix("current=").unwrap_or(text).parse().ok()
}

/// Size of a disk in GiB, rounded down because storages round sizes up.
fn gib(disk: &Drive) -> u64 {
    (disk.size().unwrap_or(GIB) / GIB).max(1)
}

/// Disk at this key of the VM config. `None` for a CD drive.
fn disk(config: &VmConfig, key: &str) -> Option<Drive> {
    config.get(key).map(Drive::parse).filter(|drive| !drive.is_cdrom() && drive.storage().is_some())
}

fn is_numbered(key: &str, start: &str) -> bool {
    key.strip_prefix(start).is_some_and(|number| number.parse::<u8>().is_ok())
}

/// System disk and further disks of a VM. A VM with a disk that the inventory cannot name is not adopted, because a plan
/// would remove that disk.
fn disks(config: &VmConfig, bus: &str) -> Result<Vec<Drive>, String> {
    let own: Vec<Drive> =
        (0_u8..).map_while(|index| disk(config, &format!("{bus}{index}"))).collect();
    let is_known = |key: &str| {
        let index = key.strip_prefix(bus).and_then(|index| index.parse::<usize>().ok());
        index.is_some_and(|index| index < own.len())
    };
    let is_disk =
        |key: &str| ["scsi", "virtio", "sata", "ide"].iter().any(|bus| is_numbered(key, bus));
    let mut keys = config.iter().map(|(key, _)| key);
    let other = keys.find(|key| is_disk(key) && !is_known(key) && disk(config, key).is_some());
    match other {
        Some(key) => Err(format!(
            "its VM has the disk {key}: the inventory describes only disks that follow {bus}0 without a gap"
        )),
        None => Ok(own),
    }
}

/// First network card as keys of the node, and further network cards as a list.
fn cards(config: &VmConfig) -> Result<Vec<(&'static str, String)>, String> {
    let nets: Vec<Net> = (0_u8..).map_while(|index| config.net(index)).collect();
    let count = config.iter().filter(|(key, _)| is_numbered(key, "net")).count();
    if nets.is_empty() || nets.len() != count {
        return Err(
            "the network cards of its VM are not net0, net1 and so on without a gap".to_owned()
        );
    }
    let mut lists = vec![];
    for (index, net) in nets.iter().enumerate() {
        if net.model != "virtio" {
            return Err(format!("net{index} of its VM is {}, and talmox uses virtio", net.model));
        }
        let mac = net.mac.ok_or_else(|| format!("net{index} of its VM has no MAC address"))?;
        let bridge =
            net.bridge.as_ref().ok_or_else(|| format!("net{index} of its VM has no bridge"))?;
        let mut keys = vec![("mac", quoted(&mac.to_string())), ("bridge", bridge.to_string())];
        keys.extend(net.vlan.map(|vlan| ("vlan", vlan.to_string())));
        keys.extend(net.firewall.then(|| ("firewall", "true".to_owned())));
        lists.push(keys);
    }
    let further: Vec<String> = lists.iter().skip(1).map(|keys| flow(keys)).collect();
    let mut keys = lists.swap_remove(0);
    if !further.is_empty() {
        keys.push(("nics", format!("[{}]", further.join(", "))));
    }
    Ok(keys)
}

fn gpu(config: &VmConfig) -> Result<Option<(&'static str, String)>, String> {
    let count = config.iter().filter(|(key, _)| is_numbered(key, "hostpci")).count();
    let Some(device) = config.get("hostpci0").map(HostPci::parse).filter(|_| count == 1) else {
        return match count {
            0 => Ok(None),
            _ => Err("its VM has several PCI devices, and the inventory describes one".to_owned()),
        };
    };
    let source = match &device.source {
        PciSource::Mapping(mapping) => ("mapping", mapping.to_string()),
        PciSource::Host(address) => ("pci", quoted(address)),
    };
    let HostPci { pcie, rombar, x_vga, .. } = device;
    let keys = [
        source,
        ("pcie", pcie.to_string()),
        ("rombar", rombar.to_string()),
        ("x_vga", x_vga.to_string()),
    ];
    Ok(Some(("gpu", flow(&keys))))
}

/// YAML mapping on one line.
fn flow(keys: &[(&str, String)]) -> String {
    let mut text = String::from("{");
    for (index, (key, value)) in keys.iter().enumerate() {
        let comma = if index == 0 { "" } else { ", " };
        write!(text, "{comma}{key}: {value}").expect("invariant: writing to a string succeeds");
    }
    text.push('}');
    text
}

/// Text in double quotes, valid in YAML and JSON.
pub(super) fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn vm(lines: &str) -> FoundVm {
        let pairs = lines.lines().filter_map(|line| line.trim().split_once(": "));
        FoundVm {
            guest: Guest {
                vmid: "105".parse().unwrap(),
                node: "pve1".parse().unwrap(),
                is_vm: true,
                name: None,
                status: "running".to_owned(),
                template: false,
                tags: vec![],
                lock: None,
                pool: None,
                ha_state: None,
                max_memory: None,
                max_cpu: None,
                uptime: None,
            },
            config: VmConfig::new(pairs.map(|(key, value)| (key.to_owned(), value.to_owned()))),
        }
    }

    const PLAIN: &str = "cores: 4
        sockets: 2
        boot: order=scsi0;net0
        memory: 8192
        machine: pc-q35-9.0
        bios: ovmf
        scsi0: tank:vm-105-disk-1,size=40G,ssd=1,discard=on
        scsi1: local-lvm:vm-105-disk-2,size=100G
        ide2: local:iso/talos.iso,media=cdrom
        net0: virtio=BC:24:11:00:00:01,bridge=vmbr0,tag=40
        net1: virtio=BC:24:11:00:00:02,bridge=vmbr1,firewall=1";

    #[test]
    fn options_become_settings() {
        let keys = settings(&vm(PLAIN)).unwrap();
        let text: Vec<String> = keys.iter().map(|(key, value)| format!("{key}: {value}")).collect();
        for line in [
            "vmid: 105",
            "host: pve1",
            "cores: 4",
            "sockets: 2",
            "boot_order: [scsi0, net0]",
            "memory: 8192",
            "disk: 40G",
            "disk_bus: scsi",
            "datastore: tank",
            "machine_type: q35",
            "ssd: true",
            "disks: [{size: 100G, datastore: local-lvm}]",
            "mac: \"BC:24:11:00:00:01\"",
            "vlan: 40",
            "nics: [{mac: \"BC:24:11:00:00:02\", bridge: vmbr1, firewall: true}]",
        ] {
            assert!(text.iter().any(|found| found == line), "{line} is not in {text:#?}");
        }
    }

    #[test]
    fn vms_that_the_inventory_cannot_describe_are_rejected() {
        for (from, to, why) in [
            ("scsi1:", "scsi5:", "the disk scsi5"),
            ("scsi0:", "ide0:", "no disk scsi0"),
            ("net1:", "net3:", "without a gap"),
            ("net0: virtio", "net0: e1000", "net0 of its VM is e1000"),
        ] {
            let error = settings(&vm(&PLAIN.replace(from, to))).unwrap_err();
            assert!(error.contains(why), "{error}");
        }
        let two = format!("{PLAIN}\nhostpci0: mapping=a\nhostpci1: mapping=b");
        assert!(settings(&vm(&two)).unwrap_err().contains("several PCI devices"));
    }
}
