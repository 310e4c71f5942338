//! NoCloud: a volume labelled cidata, and the SMBIOS serial number.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr};

use talmox_talos_config::network::Prefix;
use talmox_yaml::Node as Yaml;

use super::super::config::prefix;
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
            // Not for Talos, but for the host name that it has.
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
        Some("1") => first_version(node, data),
        Some("2") => second_version(node, data),
        _ => {}
    }
}

fn first_version(node: &Yaml, data: &mut PlatformData) {
    for entry in items(node, "config") {
        match text(entry, "type").as_deref() {
            Some("physical") => data.links.push(physical(entry)),
            Some("nameserver") => {
                let one = text(entry, "address").and_then(|one| address(&one));
                let several = items(entry, "address").filter_map(|item| address(item.as_str()?));
                data.nameservers.extend(one.into_iter().chain(several));
            }
            _ => {}
        }
    }
}

fn physical(entry: &Yaml) -> PlatformLink {
    let mut link = PlatformLink {
        name: text(entry, "name"),
        mac: text(entry, "mac_address").map(|mac| mac.to_lowercase()),
        mtu: text(entry, "mtu").and_then(|mtu| mtu.parse().ok()),
        ..PlatformLink::default()
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

fn second_version(node: &Yaml, data: &mut PlatformData) {
    let ethernets = at(node, "ethernets").and_then(Yaml::as_map);
    for entry in ethernets.into_iter().flat_map(|map| &map.entries) {
        let value = &entry.value;
        let matched = at(value, "match");
        let mac = matched.and_then(|matched| text(matched, "macaddress"));
        let name = matched.and_then(|matched| text(matched, "name"));
        let is_true = |key: &str| text(value, key).is_some_and(|flag| flag == "true");
        let routes = items(value, "routes").filter_map(|route| {
            let to = text(route, "to")?;
            let is_default = matches!(to.as_str(), "default" | "0.0.0.0/0" | "::/0");
            is_default.then(|| address(&text(route, "via")?)).flatten()
        });
        let gateways = ["gateway4", "gateway6"];
        let gateways = gateways.iter().filter_map(|key| address(&text(value, key)?));
        data.links.push(PlatformLink {
            name: match mac {
                Some(_) => name,
                None => name.or_else(|| entry.key.as_str().map(str::to_owned)),
            },
            mac: mac.map(|mac| mac.to_lowercase()),
            is_dhcp: is_true("dhcp4") || is_true("dhcp6"),
            addresses: items(value, "addresses")
                .filter_map(|item| prefix(item.as_str()?))
                .collect(),
            gateways: gateways.chain(routes).collect(),
            mtu: text(value, "mtu").and_then(|mtu| mtu.parse().ok()),
        });
        if let Some(servers) = at(value, "nameservers") {
            let found = items(servers, "addresses").filter_map(|item| address(item.as_str()?));
            data.nameservers.extend(found);
        }
    }
}

/// How many bits a mask such as `255.255.0.0` has; a plain number stands for itself.
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
    fn the_drive_that_proxmox_makes() {
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
    fn the_second_version_and_a_config() {
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
