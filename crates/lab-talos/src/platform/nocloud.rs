//! Platform nocloud: cidata volume and SMBIOS serial number.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr};

use talmox_talos_config::network::Prefix;
use talmox_yaml::Node as Yaml;

use super::super::config::{DEFAULT_VLAN_PROTOCOL, LinkSelector, VirtualLink, prefix};
use super::{PlatformData, PlatformLink, address, at, first, items, text};

pub(super) fn read(serial: &str, files: Option<&BTreeMap<String, Vec<u8>>>) -> PlatformData {
    let file = |name: &str| {
        let bytes = files?.get(name)?;
        String::from_utf8(bytes.clone()).ok()
    };
    let mut data = PlatformData { name: "nocloud".to_owned(), ..PlatformData::default() };
    let user_data = file("user-data");
    if let Some(meta) = file("meta-data").and_then(|text| first(&text)) {
        data.hostname = ["hostname", "local-hostname"].iter().find_map(|key| text(&meta, key));
        data.instance_id = text(&meta, "instance-id");
    }
    if let Some(user_data) = user_data {
        if user_data.lines().next().is_some_and(|line| line.trim_end() == "#cloud-config") {
            // From user data that is a `#cloud-config`, Talos reads only the host name.
            let parsed = first(&user_data);
            let found = parsed.and_then(|node| {
                ["hostname", "local-hostname"].iter().find_map(|key| text(&node, key))
            });
            data.hostname = data.hostname.or(found);
        } else if !user_data.trim().is_empty() {
            data.user_data = Some(user_data);
        }
    }
    if let Some(node) = file("network-config").and_then(|text| first(&text)) {
        network(at(&node, "network").unwrap_or(&node), &mut data);
    }
    for part in serial.split(';') {
        match part.split_once('=') {
            Some(("h", name)) => data.hostname = Some(name.to_owned()),
            Some(("i", id)) => data.instance_id = Some(id.to_owned()),
            _ => {}
        }
    }
    data
}

fn network(node: &Yaml, data: &mut PlatformData) {
    match text(node, "version").as_deref() {
        Some("1") => read_version_1(node, data),
        Some("2") => read_version_2(node, data),
        _ => {}
    }
}

fn read_version_1(node: &Yaml, data: &mut PlatformData) {
    let mut bonds = vec![];
    for entry in items(node, "config") {
        match text(entry, "type").as_deref() {
            Some("physical") => data.links.push(with_subnets(
                entry,
                PlatformLink {
                    mac: text(entry, "mac_address").map(|mac| mac.to_lowercase()),
                    ..PlatformLink::default()
                },
            )),
            Some("vlan") => {
                let virtual_link =
                    text(entry, "vlan_id").and_then(|id| id.parse().ok()).map(|id| {
                        let parent = by_label(data, &text(entry, "vlan_link").unwrap_or_default());
                        VirtualLink::Vlan { parent, id, protocol: DEFAULT_VLAN_PROTOCOL.to_owned() }
                    });
                let link = PlatformLink { virtual_link, ..PlatformLink::default() };
                data.links.push(with_subnets(entry, link));
            }
            Some("bond") => bonds.push(entry),
            Some("nameserver") => {
                let one = text(entry, "address").and_then(|one| address(&one));
                let several = items(entry, "address").filter_map(|item| address(item.as_str()?));
                data.nameservers.extend(one.into_iter().chain(several));
            }
            _ => {}
        }
    }
    // Bonds are processed last, because their members may be listed after them.
    for entry in bonds {
        let members = items(entry, "bond_interfaces").filter_map(Yaml::as_str);
        let members = members.map(|label| by_label(data, label)).collect();
        let mode = at(entry, "params").and_then(|params| text(params, "bond-mode"));
        let virtual_link = Some(bond(members, mode));
        data.links
            .push(with_subnets(entry, PlatformLink { virtual_link, ..PlatformLink::default() }));
    }
}

fn bond(members: Vec<LinkSelector>, mode: Option<String>) -> VirtualLink {
    VirtualLink::Bond { members, mode: mode.unwrap_or_else(|| "balance-rr".to_owned()) }
}

/// Selector of the link that another entry describes under this name. If there is none, selector of the link with this name.
fn by_label(data: &PlatformData, label: &str) -> LinkSelector {
    let known = data.links.iter().find(|link| link.name.as_deref() == Some(label));
    known.map_or_else(|| LinkSelector::Name(label.to_owned()), PlatformLink::selector)
}

/// Adds the name and the subnets of an entry to a link, for a network config of version 1.
fn with_subnets(entry: &Yaml, link: PlatformLink) -> PlatformLink {
    let mut link = PlatformLink {
        name: text(entry, "name"),
        mtu: text(entry, "mtu").and_then(|mtu| mtu.parse().ok()),
        ..link
    };
    for subnet in items(entry, "subnets") {
        match text(subnet, "type").as_deref() {
            Some("dhcp" | "dhcp4" | "dhcp6" | "ipv6_dhcpv6-stateful") => link.is_dhcp = true,
            Some("static" | "static6") => {
                let own = text(subnet, "address").unwrap_or_default();
                let mask = text(subnet, "netmask").and_then(|mask| length(&mask));
                link.addresses.extend(match (own.contains('/'), mask, own.parse::<IpAddr>()) {
                    (false, Some(length), Ok(address)) => Prefix::new(address, length),
                    _ => prefix(&own),
                });
                link.gateways.extend(text(subnet, "gateway").and_then(|text| address(&text)));
            }
            _ => {}
        }
    }
    link
}

fn read_version_2(node: &Yaml, data: &mut PlatformData) {
    let entries = |key: &str| {
        let map = at(node, key).and_then(Yaml::as_map);
        map.into_iter().flat_map(|map| &map.entries)
    };
    let mut cards = vec![];
    for entry in entries("ethernets") {
        let (label, value) = (entry.key.as_str(), &entry.value);
        let matched = at(value, "match");
        let mac = matched.and_then(|matched| text(matched, "macaddress"));
        let name = matched.and_then(|matched| text(matched, "name"));
        let link = PlatformLink {
            name: match mac {
                Some(_) => name,
                None => name.or_else(|| label.map(str::to_owned)),
            },
            mac: mac.map(|mac| mac.to_lowercase()),
            ..PlatformLink::default()
        };
        cards.push((label, link.selector()));
        version_2_link(value, link, data);
    }
    for entry in entries("bonds") {
        let members = items(&entry.value, "interfaces").filter_map(Yaml::as_str);
        let members = members.map(|label| {
            let known = cards.iter().find(|(known, _)| *known == Some(label));
            known.map_or_else(|| LinkSelector::Name(label.to_owned()), |(_, card)| card.clone())
        });
        let mode = at(&entry.value, "parameters").and_then(|of| text(of, "mode"));
        let name = entry.key.as_str().map(str::to_owned);
        let virtual_link = Some(bond(members.collect(), mode));
        version_2_link(
            &entry.value,
            PlatformLink { name, virtual_link, ..PlatformLink::default() },
            data,
        );
    }
    for entry in entries("vlans") {
        let Some(id) = text(&entry.value, "id").and_then(|id| id.parse().ok()) else { continue };
        // Talos uses the value as a link name, even if it is the id of another entry.
        let parent = LinkSelector::Name(text(&entry.value, "link").unwrap_or_default());
        let name = entry.key.as_str().map(str::to_owned);
        let virtual_link =
            Some(VirtualLink::Vlan { parent, id, protocol: DEFAULT_VLAN_PROTOCOL.to_owned() });
        version_2_link(
            &entry.value,
            PlatformLink { name, virtual_link, ..PlatformLink::default() },
            data,
        );
    }
}

/// Adds the addresses of an entry to a link, for a network config of version 2.
fn version_2_link(value: &Yaml, link: PlatformLink, data: &mut PlatformData) {
    let is_true = |key: &str| text(value, key).is_some_and(|flag| flag == "true");
    let routes = items(value, "routes").filter_map(|route| {
        let to = text(route, "to")?;
        let is_default = matches!(to.as_str(), "default" | "0.0.0.0/0" | "::/0");
        is_default.then(|| address(&text(route, "via")?)).flatten()
    });
    let gateways = ["gateway4", "gateway6"];
    let gateways = gateways.iter().filter_map(|key| address(&text(value, key)?));
    data.links.push(PlatformLink {
        is_dhcp: is_true("dhcp4") || is_true("dhcp6"),
        addresses: items(value, "addresses").filter_map(|item| prefix(item.as_str()?)).collect(),
        gateways: gateways.chain(routes).collect(),
        mtu: text(value, "mtu").and_then(|mtu| mtu.parse().ok()),
        ..link
    });
    if let Some(servers) = at(value, "nameservers") {
        let found = items(servers, "addresses").filter_map(|item| address(item.as_str()?));
        data.nameservers.extend(found);
    }
}

/// Prefix length of a mask such as `255.255.0.0`. A plain number already is the prefix length.
fn length(mask: &str) -> Option<u8> {
    match mask.parse::<Ipv4Addr>() {
        Ok(mask) => u8::try_from(mask.to_bits().leading_ones()).ok(),
        Err(_) => mask.parse().ok(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read_files(files: &[(&str, &str)]) -> PlatformData {
        let files = files.iter().map(|(name, text)| ((*name).to_owned(), text.as_bytes().to_vec()));
        read("", Some(&files.collect()))
    }

    #[test]
    fn the_cloud_init_drive_of_proxmox_is_read() {
        let data = read_files(&[
            (
                "user-data",
                "#cloud-config\nhostname: cp-1\nmanage_etc_hosts: true\nfqdn: cp-1.lan\n",
            ),
            ("meta-data", "instance-id: 4711\n"),
            (
                "network-config",
                "version: 1\nconfig:\n    - type: physical\n      name: eth0\n      mac_address: 'BC:24:11:00:00:01'\n      subnets:\n      - type: static\n        address: '10.0.0.11'\n        netmask: '255.255.0.0'\n        gateway: '10.0.0.1'\n    - type: nameserver\n      address:\n      - '1.1.1.1'\n      search:\n      - 'lan'\n",
            ),
        ]);
        assert_eq!(data.hostname.as_deref(), Some("cp-1"));
        assert_eq!(data.instance_id.as_deref(), Some("4711"));
        assert_eq!(data.user_data, None);
        assert_eq!(data.links[0].mac.as_deref(), Some("bc:24:11:00:00:01"));
        assert_eq!(data.links[0].addresses, [prefix("10.0.0.11/16").unwrap()]);
        assert_eq!(data.links[0].gateways, ["10.0.0.1".parse::<IpAddr>().unwrap()]);
        assert_eq!(data.nameservers, ["1.1.1.1".parse::<IpAddr>().unwrap()]);
    }

    #[test]
    fn network_config_version_2_and_a_machine_config_are_read() {
        let data = read_files(&[
            ("user-data", "version: v1alpha1\nmachine: {}\n"),
            ("meta-data", "local-hostname: w-1\n"),
            (
                "network-config",
                "network:\n  version: 2\n  ethernets:\n    eth0:\n      match: {macaddress: 'AA:00:00:00:00:01'}\n      addresses: [10.0.0.5/24]\n      routes: [{to: default, via: 10.0.0.1}]\n      nameservers: {addresses: [9.9.9.9]}\n",
            ),
        ]);
        assert_eq!(data.hostname.as_deref(), Some("w-1"));
        assert!(data.user_data.is_some());
        assert_eq!(data.links[0].addresses, [prefix("10.0.0.5/24").unwrap()]);
        assert_eq!(data.links[0].gateways.len(), 1);
    }
}
