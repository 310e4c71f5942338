//! Section `nodes`: hosts with their bridges and PCI devices.

use std::collections::BTreeMap;

use talmox_lab_pve::pve_state::{Bridge, Host, PciDevice};
use talmox_yaml::Node;

use super::section::{Read, Section, Source};

const CORES: u32 = 16;
const MEMORY: u64 = 64 << 30;
const GATEWAY: &str = "10.0.0.1";

pub(super) fn default() -> BTreeMap<String, Host> {
    BTreeMap::from([("pve".to_owned(), plain(0))])
}

/// Host with the defaults of the Proxmox installer. `nth` is the position of the host in the cluster.
fn plain(nth: usize) -> Host {
    let ip = format!("10.0.0.{}", 11 + nth % 240);
    Host {
        online: true,
        cores: CORES,
        memory: MEMORY,
        bridges: vec![first_bridge(&ip)],
        pci: vec![],
        booted: 0,
        settings: BTreeMap::new(),
        ip,
    }
}

fn first_bridge(ip: &str) -> Bridge {
    Bridge {
        name: "vmbr0".to_owned(),
        cidr: Some(format!("{ip}/24")),
        gateway: Some(GATEWAY.to_owned()),
        vlan_aware: false,
    }
}

pub(super) fn read(section: &Section<'_>) -> Read<BTreeMap<String, Host>> {
    let nodes = section.list("nodes")?;
    let mut hosts = BTreeMap::new();
    for (nth, node) in nodes.iter().enumerate() {
        let (name, host) = read_host(section.source, node, nth)?;
        if hosts.insert(name.clone(), host).is_some() {
            return Err(section.source.error(node.span, format!("host `{name}` is defined twice")));
        }
    }
    Ok(if hosts.is_empty() { default() } else { hosts })
}

fn read_host(source: Source<'_>, node: &Node, nth: usize) -> Read<(String, Host)> {
    let mut host = plain(nth);
    if node.as_scalar().is_some() && !node.is_null() {
        return Ok((source.text(node, "a host")?, host));
    }
    let keys = ["name", "online", "ip", "cores", "memory", "bridges", "pci", "dns", "search"];
    let section = Section::open(source, node, "a host", &keys)?;
    let name = section.name("name")?;
    if section.get("online").is_some() {
        host.online = section.flag("online")?;
    }
    if let Some(ip) = section.text("ip")? {
        host.bridges = vec![first_bridge(&ip)];
        host.ip = ip;
    }
    host.cores = section.number("cores")?.unwrap_or(host.cores);
    host.memory = section.size("memory")?.unwrap_or(host.memory);
    if section.get("bridges").is_some() {
        let bridges = section.list("bridges")?;
        host.bridges = bridges.iter().map(|node| read_bridge(source, node)).collect::<Read<_>>()?;
    }
    if section.get("dns").is_some() {
        let servers = section.words("dns")?;
        let keys = ["dns1", "dns2", "dns3"].map(str::to_owned);
        host.settings.extend(keys.into_iter().zip(servers));
    }
    if let Some(search) = section.text("search")? {
        host.settings.insert("search".to_owned(), search);
    }
    let devices = section.list("pci")?;
    host.pci = devices.iter().map(|node| read_device(source, node)).collect::<Read<_>>()?;
    Ok((name, host))
}

fn read_bridge(source: Source<'_>, node: &Node) -> Read<Bridge> {
    if node.as_scalar().is_some() {
        let name = source.text(node, "a bridge")?;
        return Ok(Bridge { name, cidr: None, gateway: None, vlan_aware: false });
    }
    let keys = ["name", "cidr", "gateway", "vlan_aware"];
    let section = Section::open(source, node, "a bridge", &keys)?;
    Ok(Bridge {
        name: section.name("name")?,
        cidr: section.text("cidr")?,
        gateway: section.text("gateway")?,
        vlan_aware: section.flag("vlan_aware")?,
    })
}

fn read_device(source: Source<'_>, node: &Node) -> Read<PciDevice> {
    let keys = [
        "address",
        "class",
        "vendor",
        "device",
        "vendor_name",
        "device_name",
        "iommu_group",
        "subsystem_vendor",
        "subsystem_device",
        "subsystem_vendor_name",
        "subsystem_device_name",
    ];
    let section = Section::open(source, node, "a PCI device", &keys)?;
    Ok(PciDevice {
        address: section.name("address")?,
        // The default is a display controller, because that is the most common device for passthrough.
        class: section.text("class")?.unwrap_or_else(|| "0x030000".to_owned()),
        vendor: section.name("vendor")?,
        device: section.name("device")?,
        vendor_name: section.text("vendor_name")?,
        device_name: section.text("device_name")?,
        iommu_group: section.number("iommu_group")?.unwrap_or(-1),
        subsystem_vendor: section.text("subsystem_vendor")?,
        subsystem_device: section.text("subsystem_device")?,
        subsystem_vendor_name: section.text("subsystem_vendor_name")?,
        subsystem_device_name: section.text("subsystem_device_name")?,
    })
}
