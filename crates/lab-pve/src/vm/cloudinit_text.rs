//! Cloud-init files that Proxmox generates from VM options.

use std::net::Ipv4Addr;

use super::identity::is_net;
use crate::digest;
use crate::pve_state::{Config, Host, PveState};
use crate::schema::{self, Fields, FormatName};

/// `user-data` file.
pub(crate) fn user(config: &Config, vmid: u32, mask_password: bool) -> String {
    let (host, full) = names(config, vmid);
    let mut text =
        format!("#cloud-config\nhostname: {host}\nmanage_etc_hosts: true\nfqdn: {full}\n");
    let user = config.get("ciuser");
    let is_root = user.is_some_and(|user| user == "root");
    if let Some(user) = user {
        text += &format!("user: {user}\n");
    }
    if is_root {
        text += "disable_root: False\n";
    }
    if let Some(password) = config.get("cipassword") {
        let shown = if mask_password { "**********" } else { password };
        text += &format!("password: {shown}\n");
    }
    if let Some(keys) = config.get("sshkeys") {
        text += "ssh_authorized_keys:\n";
        let keys = unescaped(keys);
        for key in keys.split('\n').filter(|key| !key.trim().is_empty()) {
            text += &format!("  - {key}\n");
        }
    }
    text += "chpasswd:\n  expire: False\n";
    if !is_root {
        text += "users:\n  - default\n";
    }
    if config.get("ciupgrade").is_none_or(|value| value != "0") {
        text += "package_upgrade: true\n";
    }
    text
}

/// Host name and fully qualified name of the VM.
fn names(config: &Config, vmid: u32) -> (String, String) {
    let name = config.get("name").cloned().unwrap_or_else(|| format!("VM{vmid}"));
    match (name.split_once('.'), config.get("searchdomain")) {
        (Some((host, _)), _) => (host.to_owned(), name),
        (None, Some(domain)) => (name.clone(), format!("{name}.{domain}")),
        (None, None) => (name.clone(), name),
    }
}

/// Decodes the percent-encoding of a text.
fn unescaped(text: &str) -> String {
    let mut bytes = vec![];
    let mut rest = text.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        let hex = after.get(..2).and_then(|two| std::str::from_utf8(two).ok());
        let escaped = hex.and_then(|two| u8::from_str_radix(two, 16).ok());
        match escaped {
            Some(byte) if *first == b'%' => {
                bytes.push(byte);
                rest = &after[2..];
            }
            _ => {
                bytes.push(*first);
                rest = after;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Number, MAC address and IP settings of a network card that has an `ipconfigN`.
struct CardAddresses {
    number: String,
    mac: String,
    ip: Option<String>,
    gateway: Option<String>,
    ip6: Option<String>,
    gateway6: Option<String>,
}

fn cards(pve_state: &PveState, config: &Config) -> Vec<CardAddresses> {
    let nets = schema::format(pve_state.release, FormatName::Net);
    let ips = schema::format(pve_state.release, FormatName::IpConfig);
    let mut cards = vec![];
    for (key, value) in config.iter().filter(|(key, _)| is_net(key)) {
        let number = key.trim_start_matches("net").to_owned();
        let Some(ip_config) = config.get(&format!("ipconfig{number}")) else { continue };
        let mac = nets.parse(value).ok().and_then(|net| net.get("macaddr").map(str::to_lowercase));
        let fields = ips.parse(ip_config).ok().and_then(validated).unwrap_or_default();
        let field = |name: &str| fields.get(name).map(str::to_owned);
        cards.push(CardAddresses {
            number,
            mac: mac.unwrap_or_default(),
            ip: field("ip"),
            gateway: field("gw"),
            ip6: field("ip6"),
            gateway6: field("gw6"),
        });
    }
    cards
}

/// Validated fields of an `ipconfigN`; `None` if the fields contradict each other. A card without addresses uses DHCP.
fn validated(mut fields: Fields) -> Option<Fields> {
    let is_fixed =
        |name: &str| fields.get(name).is_some_and(|ip| ip.contains('/') || ip.contains(':'));
    if fields.has("gw") && !is_fixed("ip") || fields.has("gw6") && !is_fixed("ip6") {
        return None;
    }
    if !fields.has("ip") && !fields.has("ip6") {
        fields.set("ip", "dhcp");
        fields.set("ip6", "dhcp");
    }
    Some(fields)
}

/// Address and netmask of a CIDR.
fn split(ip: &str) -> (String, String) {
    let (address, prefix) = ip.split_once('/').unwrap_or((ip, "32"));
    let length = prefix.parse::<u32>().unwrap_or(32).min(32);
    let mask = u32::MAX.checked_shl(32 - length).unwrap_or_default();
    (address.to_owned(), Ipv4Addr::from(mask).to_string())
}

/// Search domains and name servers of the VM, or else those of the host.
fn resolver(pve_state: &PveState, node: &str, config: &Config) -> (Vec<String>, Vec<String>) {
    let host = pve_state.hosts.get(node).map(Host::resolver).unwrap_or_default();
    let setting = |key: &str| host.get(key).cloned();
    let words = |text: &str| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
    let search = config.get("searchdomain").cloned().or_else(|| setting("search"));
    let servers = match config.get("nameserver") {
        Some(servers) => words(servers),
        None => ["dns1", "dns2", "dns3"].into_iter().filter_map(setting).collect(),
    };
    (search.map(|search| words(&search)).unwrap_or_default(), servers)
}

/// `network-config` file in version 1. It identifies network cards by MAC address.
pub(crate) fn network_v1(pve_state: &PveState, node: &str, config: &Config) -> String {
    let mut text = "version: 1\nconfig:\n".to_owned();
    for card in cards(pve_state, config) {
        let CardAddresses { number, mac, .. } = &card;
        text += &format!(
            "    - type: physical\n      name: eth{number}\n      mac_address: '{mac}'\n      subnets:\n"
        );
        match card.ip.as_deref() {
            Some("dhcp") => text += "      - type: dhcp4\n",
            Some(ip) => {
                let (address, mask) = split(ip);
                text += &format!(
                    "      - type: static\n        address: '{address}'\n        netmask: '{mask}'\n"
                );
                text += &gateway_line(card.gateway.as_ref());
            }
            None => {}
        }
        match card.ip6.as_deref() {
            Some("dhcp") => text += "      - type: dhcp6\n",
            Some("auto") => text += "      - type: ipv6_slaac\n",
            Some(ip) => {
                text += &format!("      - type: static6\n        address: '{ip}'\n");
                text += &gateway_line(card.gateway6.as_ref());
            }
            None => {}
        }
    }
    text += "    - type: nameserver\n";
    let (search, servers) = resolver(pve_state, node, config);
    for (name, values) in [("address", servers), ("search", search)] {
        if !values.is_empty() {
            text += &format!("      {name}:\n");
            text.extend(values.iter().map(|value| format!("      - '{value}'\n")));
        }
    }
    text
}

fn gateway_line(gateway: Option<&String>) -> String {
    gateway.map(|gateway| format!("        gateway: '{gateway}'\n")).unwrap_or_default()
}

/// Network config in the format of `/etc/network/interfaces`, for config drives.
pub(crate) fn interfaces(pve_state: &PveState, node: &str, config: &Config) -> String {
    let mut text = "auto lo\niface lo inet loopback\n\n".to_owned();
    let (search, servers) = resolver(pve_state, node, config);
    for (name, values) in [("dns_nameservers", servers), ("dns_search", search)] {
        if !values.is_empty() {
            text += &format!("        {name} {}\n", values.join(" "));
        }
    }
    for card in cards(pve_state, config) {
        let id = format!("eth{}", card.number);
        text += &format!("auto {id}\n");
        match card.ip.as_deref() {
            Some("dhcp") => text += &format!("iface {id} inet dhcp\n"),
            Some(ip) => {
                let (address, mask) = split(ip);
                text += &fixed(&id, "inet", &address, &mask, card.gateway.as_ref());
            }
            None => {}
        }
        match card.ip6.as_deref() {
            Some(word @ ("dhcp" | "auto")) => text += &format!("iface {id} inet6 {word}\n"),
            Some(ip) => {
                let (address, length) = ip.split_once('/').unwrap_or((ip, "128"));
                text += &fixed(&id, "inet6", address, length, card.gateway6.as_ref());
            }
            None => {}
        }
    }
    text
}

fn fixed(id: &str, family: &str, address: &str, mask: &str, gateway: Option<&String>) -> String {
    let mut text =
        format!("iface {id} {family} static\n        address {address}\n        netmask {mask}\n");
    if let Some(gateway) = gateway {
        text += &format!("        gateway {gateway}\n");
    }
    text
}

/// `meta-data` file. The instance id is a hash of the other files, so it changes with their content.
pub(crate) fn meta(user: &str, network: &str) -> String {
    format!("instance-id: {}\n", digest::of_text(&format!("{user}{network}")))
}

/// `meta_data.json` file of a config drive.
pub(crate) fn config_drive_meta(id: &str) -> String {
    format!(
        "{{\n     \"uuid\": \"{id}\",\n     \"network_config\": {{ \"content_path\": \"/content/0000\" }}\n}}\n"
    )
}
