//! Lab scenario for an inventory: the hosts, storages, bridges, devices and networks of the lab.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr};

use serde_json::{Value, json};
use talmox_lab::{NodeSettings, Scenario, ScenarioError};
use talmox_model::{Cluster, Node};

use super::lease;

/// Host name for inventories that do not name a host.
const USUAL_HOST: &str = "pve";

/// Scenario with all hosts, storages, bridges, pools and devices that the inventory names.
pub(crate) fn scenario(cluster: &Cluster) -> Result<Scenario, ScenarioError> {
    let proxmox = &cluster.file.proxmox;
    let mut hosts: BTreeSet<String> = proxmox.hosts.values().map(ToString::to_string).collect();
    hosts.extend(proxmox.node.get().map(ToString::to_string));
    hosts.extend(cluster.nodes.iter().filter_map(host));
    if hosts.is_empty() {
        hosts.insert(USUAL_HOST.to_owned());
    }
    let text = json!({
        "nodes": hosts.iter().map(|name| host_json(cluster, name)).collect::<Vec<_>>(),
        "storages": storages(cluster),
        "pools": pools(cluster),
        "mappings": {"pci": mappings(cluster, &hosts)},
    });
    Scenario::parse("the inventory's lab", &text.to_string())
}

/// Network settings of the nodes: networks, gateways and DHCP leases.
pub(crate) fn nodes(cluster: &Cluster, cluster_id: Option<&str>) -> NodeSettings {
    let network = &cluster.file.network;
    let own = cluster.nodes.iter().filter_map(Node::address);
    let contacts = lease::contacts(cluster).into_iter().map(|(_, address)| address);
    let addresses = own.chain(contacts).chain(network.vip.get().copied());
    let networks: BTreeSet<Ipv4Addr> = addresses.filter_map(lease::network_of).collect();
    let gateways = cluster.nodes.iter().filter_map(|node| node.settings().placement.gateway.get());
    let gateways: BTreeSet<IpAddr> = gateways.chain(network.gateway.get()).copied().collect();
    NodeSettings {
        networks: networks.into_iter().collect(),
        gateways: gateways.into_iter().collect(),
        leases: lease::leases(cluster, cluster_id),
        ..NodeSettings::default()
    }
}

/// Host names of the Image Factories that the nodes use, except the public Image Factory.
pub(crate) fn factories(cluster: &Cluster) -> Vec<String> {
    let named = cluster.nodes.iter().filter_map(|node| {
        let image = &node.settings().system.image;
        let factory = image.factory.get().map(|url| url.host.clone());
        [factory, image.url.get().map(|url| url.host.clone())].into_iter().flatten().next_back()
    });
    named.collect::<BTreeSet<_>>().into_iter().collect()
}

fn host(node: &Node) -> Option<String> {
    node.settings().placement.host.get().map(ToString::to_string)
}

fn host_json(cluster: &Cluster, name: &str) -> Value {
    let settings = cluster.nodes.iter().map(Node::settings);
    let first = settings.clone().filter_map(|node| node.placement.bridge.get());
    let further =
        settings.flat_map(|node| node.hardware.nics.values()).filter_map(|nic| nic.bridge.get());
    let bridges: BTreeSet<String> = first
        .chain(further)
        .chain(cluster.file.proxmox.bridge.get())
        .map(ToString::to_string)
        .collect();
    let bridges = bridges.iter().map(|bridge| json!({"name": bridge, "vlan_aware": true}));
    json!({
        "name": name,
        "cores": 64,
        "memory": "512GiB",
        "bridges": bridges.collect::<Vec<_>>(),
        "pci": devices(cluster, name),
    })
}

/// PCI addresses of the devices on a host. These are the devices of nodes on this host, and of nodes without a fixed
/// host.
fn addresses(cluster: &Cluster, name: &str) -> BTreeSet<String> {
    let here = cluster.nodes.iter().filter(|node| host(node).is_none_or(|host| host == name));
    here.filter_map(|node| {
        let gpu = &node.settings().hardware.gpu;
        let pci = gpu.pci.get().copied().map(device_address);
        pci.or_else(|| gpu.mapping.get().map(|mapping| mapped_address(cluster, mapping.as_str())))
    })
    .collect()
}

/// PCI devices of a host, each in its own IOMMU group.
fn devices(cluster: &Cluster, name: &str) -> Vec<Value> {
    addresses(cluster, name)
        .iter()
        .zip(1..)
        .map(|(address, group)| {
            json!({
                "address": address,
                "vendor": "0x10de",
                "device": "0x2204",
                "vendor_name": "NVIDIA Corporation",
                "device_name": "GA102 [GeForce RTX 3090]",
                "subsystem_vendor": "0x1043",
                "subsystem_device": "0x87d9",
                "subsystem_vendor_name": "ASUSTeK Computer Inc.",
                "iommu_group": group,
            })
        })
        .collect()
}

fn device_address(pci: talmox_model::value::PciAddress) -> String {
    let function = pci.function.unwrap_or_default();
    format!("{:04x}:{:02x}:{:02x}.{function}", pci.domain, pci.bus, pci.device)
}

/// PCI address of the device that a mapping names. Each mapping has its own device.
fn mapped_address(cluster: &Cluster, mapping: &str) -> String {
    let names: BTreeSet<&str> = cluster
        .nodes
        .iter()
        .filter_map(|node| node.settings().hardware.gpu.mapping.get())
        .map(talmox_model::value::MappingName::as_str)
        .collect();
    let index = names.iter().position(|name| *name == mapping).unwrap_or_default();
    format!("0000:{:02x}:00.0", 0x81 + index)
}

fn mappings(cluster: &Cluster, hosts: &BTreeSet<String>) -> Vec<Value> {
    let named = cluster.nodes.iter().filter_map(|node| {
        Some((node.settings().hardware.gpu.mapping.get()?.as_str(), host(node)))
    });
    let mut by_name: BTreeMap<&str, BTreeSet<String>> = BTreeMap::new();
    for (mapping, host) in named {
        let places = by_name.entry(mapping).or_default();
        match host {
            Some(host) => places.extend([host]),
            None => places.extend(hosts.iter().cloned()),
        }
    }
    by_name
        .into_iter()
        .map(|(mapping, hosts)| {
            let address = mapped_address(cluster, mapping);
            let entries = hosts.iter().map(|host| {
                let known = addresses(cluster, host);
                let group =
                    known.iter().position(|known| *known == address).unwrap_or_default() + 1;
                format!("id=10de:2204,node={host},path={address},iommugroup={group},subsystem-id=1043:87d9")
            });
            json!({"id": mapping, "map": entries.collect::<Vec<_>>()})
        })
        .collect()
}

fn storages(cluster: &Cluster) -> Vec<Value> {
    let proxmox = &cluster.file.proxmox;
    let images = proxmox.image_datastore.get().map_or("local".to_owned(), ToString::to_string);
    let settings = cluster.nodes.iter().map(Node::settings);
    let own = settings.clone().filter_map(|node| node.placement.datastore.get());
    let further = settings
        .flat_map(|node| node.hardware.disks.values())
        .filter_map(|disk| disk.datastore.get());
    let mut disks: BTreeSet<String> =
        own.chain(further).chain(proxmox.datastore.get()).map(ToString::to_string).collect();
    let holds_disks = disks.remove(&images);
    let content = if holds_disks { "iso,vztmpl,import,images" } else { "iso,vztmpl,backup,import" };
    let mut storages = vec![json!({
        "storage": images, "type": "dir", "path": "/var/lib/vz", "content": content, "size": "10TiB",
    })];
    storages.extend(disks.iter().map(|name| {
        json!({
            "storage": name, "type": "lvmthin", "vgname": "pve", "thinpool": name,
            "content": "images,rootdir", "size": "100TiB",
        })
    }));
    storages
}

fn pools(cluster: &Cluster) -> Vec<Value> {
    let own = cluster.nodes.iter().filter_map(|node| node.settings().placement.pool.get());
    let pools: BTreeSet<String> =
        own.chain(cluster.file.proxmox.pool.get()).map(ToString::to_string).collect();
    pools.iter().map(|pool| json!({"poolid": pool})).collect()
}
