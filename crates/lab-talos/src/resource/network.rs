//! Network resources: links and addresses.

use std::net::{IpAddr, Ipv6Addr};

use serde_json::{Value, json};
use talmox_talos_config::network::Prefix;

use super::proto::{Field, Form};
use super::resolver::{HOST_DNS_FOR_PODS, serves_pods};
use super::{Item, ResourceContext, ResourceSource};
use crate::config::prefix;
use crate::link::{Link, LinkKind};

pub(super) const FAMILIES: &[(&str, u64)] = &[("inet4", 2), ("inet6", 10)];
pub(super) const SCOPES: &[(&str, u64)] =
    &[("global", 0), ("site", 200), ("link", 253), ("host", 254), ("nowhere", 255)];
pub(super) const LAYERS: &[(&str, u64)] =
    &[("default", 0), ("cmdline", 1), ("platform", 2), ("operator", 3), ("configuration", 4)];
const ADDRESS_STATUS: &[Field] = &[
    ("address", 1, Form::Prefix),
    ("address", 2, Form::Host),
    ("linkIndex", 6, Form::Number),
    ("linkName", 7, Form::Text),
    ("family", 8, Form::Enum(FAMILIES)),
    ("scope", 9, Form::Enum(SCOPES)),
];
const ADDRESS_SPEC: &[Field] = &[
    ("address", 1, Form::Prefix),
    ("linkName", 2, Form::Text),
    ("family", 3, Form::Enum(FAMILIES)),
    ("scope", 4, Form::Enum(SCOPES)),
    ("layer", 7, Form::Enum(LAYERS)),
];
const BOND_MODES: &[(&str, u64)] = &[
    ("balance-rr", 0),
    ("active-backup", 1),
    ("balance-xor", 2),
    ("broadcast", 3),
    ("802.3ad", 4),
    ("balance-tlb", 5),
    ("balance-alb", 6),
];
const LINK_STATUS: &[Field] = &[
    ("index", 1, Form::Number),
    ("type", 2, Form::Enum(&[("ether", 1), ("loopback", 772)])),
    ("linkIndex", 3, Form::Number),
    ("hardwareAddr", 5, Form::Mac),
    ("broadcastAddr", 6, Form::Mac),
    ("mtu", 7, Form::Number),
    ("queueDisc", 8, Form::Text),
    ("masterIndex", 9, Form::Number),
    ("operationalState", 10, Form::Enum(&[("down", 2), ("up", 6)])),
    ("kind", 11, Form::Text),
    ("slaveKind", 12, Form::Text),
    ("busPath", 13, Form::Text),
    ("driver", 15, Form::Text),
    ("linkState", 22, Form::Number),
    (
        "vlan",
        26,
        Form::Message(&[
            ("vlanID", 1, Form::Number),
            ("vlanProtocol", 2, Form::Enum(&[("802.1q", 0x8100), ("802.1ad", 0x88a8)])),
        ]),
    ),
    ("bondMaster", 28, Form::Message(&[("mode", 1, Form::Enum(BOND_MODES))])),
    ("permanentAddr", 30, Form::Mac),
    ("alias", 31, Form::Text),
    ("altNames", 32, Form::Each(&Form::Text)),
];

pub(super) const SOURCES: &[ResourceSource] = &[
    ResourceSource {
        name: "HostnameStatuses.net.talos.dev",
        proto: &[("hostname", 1, Form::Text), ("domainname", 2, Form::Text)],
        list: |context| {
            let network = &context.node.network;
            let spec = json!({ "hostname": network.hostname, "domainname": network.domain });
            vec![Item::new("hostname", spec)]
        },
    },
    ResourceSource {
        name: "AddressStatuses.net.talos.dev",
        proto: ADDRESS_STATUS,
        list: address_statuses,
    },
    ResourceSource { name: "AddressSpecs.net.talos.dev", proto: ADDRESS_SPEC, list: address_specs },
    ResourceSource { name: "LinkStatuses.net.talos.dev", proto: LINK_STATUS, list: links },
];

/// All addresses of the node, each with its link: loopback, configured, link-local and virtual IPs.
pub(super) fn all(context: &ResourceContext<'_>) -> Vec<(String, Prefix)> {
    let network = &context.node.network;
    let mut found: Vec<(String, Prefix)> = loopback(context);
    for link in &network.links {
        found.extend(link.addresses.iter().map(|(prefix, _)| (link.name.clone(), *prefix)));
        found.extend(link_local(link).map(|prefix| (link.name.clone(), prefix)));
    }
    found.extend(virtual_ips(context));
    found
}

fn loopback(context: &ResourceContext<'_>) -> Vec<(String, Prefix)> {
    let config = context.node.config.as_ref();
    let for_pods = config.filter(|config| serves_pods(config)).map(|_| HOST_DNS_FOR_PODS);
    let all = ["127.0.0.1/8", "::1/128"].into_iter().chain(for_pods);
    all.filter_map(|text| Some(("lo".to_owned(), prefix(text)?))).collect()
}

/// IPv6 link-local address of a link with a carrier. The kernel derives it from the MAC address. Members of a bond or bridge
/// have none.
fn link_local(link: &Link) -> Option<Prefix> {
    if !link.is_up || link.master.is_some() {
        return None;
    }
    let pairs = link.mac.split(':').map(|pair| u8::from_str_radix(pair, 16).ok());
    let mut host = pairs.collect::<Option<Vec<u8>>>().filter(|mac| mac.len() == 6)?;
    host[0] ^= 2;
    host.splice(3..3, [0xff, 0xfe]);
    let mut bytes = [0; 16];
    bytes[..2].copy_from_slice(&[0xfe, 0x80]);
    bytes[8..].copy_from_slice(&host);
    let address = Ipv6Addr::from(bytes);
    Prefix::new(address.into(), 64)
}

/// Virtual IPs, each with its link. This is the link that the config names, or else the link whose network contains the
/// address.
pub(super) fn virtual_ips(context: &ResourceContext<'_>) -> Vec<(String, Prefix)> {
    let network = &context.node.network;
    let held = network.virtual_ips.iter().filter_map(|address| {
        let on = |link: &&Link| link.addresses.iter().any(|(own, _)| own.contains(*address));
        let facts = context.node.config.iter().flat_map(|config| &config.facts.links);
        let mut wanted = facts.filter(|link| link.vip == Some(*address));
        let link = wanted.find_map(|link| network.link(&link.selector));
        let link = link.or(network.links.iter().find(on)).or(network.links.first())?;
        let length = if address.is_ipv4() { 32 } else { 128 };
        Some((link.name.clone(), Prefix::new(*address, length)?))
    });
    held.collect()
}

pub(super) fn family(prefix: Prefix) -> &'static str {
    if prefix.address().is_ipv4() { "inet4" } else { "inet6" }
}

pub(super) fn index(context: &ResourceContext<'_>, link: &str) -> usize {
    let position = context.node.network.links.iter().position(|known| known.name == link);
    position.map_or(1, |position| position + FIRST_CARD)
}

/// Index of the first network card. The indices before belong to loopback and to the default devices of the kernel.
const FIRST_CARD: usize = 8;
/// PCI slot of the first network card of a VM, on the bus behind the PCI bridge of the q35 machine.
const FIRST_SLOT: usize = 0x12;

fn scope(link: &str, prefix: Prefix) -> &'static str {
    match prefix.address() {
        _ if link == "lo" => "host",
        IpAddr::V6(address) if address.is_unicast_link_local() => "link",
        _ => "global",
    }
}

fn address_statuses(context: &ResourceContext<'_>) -> Vec<Item> {
    let has_priority = context.node.version.is_at_least(10);
    all(context)
        .into_iter()
        .map(|(link, prefix)| {
            let mut spec = json!({
                "address": prefix.to_string(),
                "linkIndex": index(context, &link),
                "linkName": link,
                "family": family(prefix),
                "scope": scope(&link, prefix),
                "flags": "permanent",
            });
            if has_priority {
                spec["priority"] = 0.into();
            }
            Item::new(format!("{link}/{prefix}"), spec)
        })
        .collect()
}

/// Addresses that Talos configures. The kernel adds IPv6 link-local addresses, which are not included.
fn address_specs(context: &ResourceContext<'_>) -> Vec<Item> {
    let spec = |link: &str, prefix: Prefix, layer: &str| {
        let spec = json!({
            "address": prefix.to_string(), "linkName": link, "family": family(prefix),
            "scope": scope(link, prefix), "flags": "permanent", "layer": layer,
        });
        Item::new(format!("{link}/{prefix}"), spec)
    };
    let loopback = loopback(context).into_iter().map(|(link, prefix)| {
        let is_default = prefix.address().is_loopback();
        spec(&link, prefix, if is_default { "default" } else { "operator" })
    });
    let links = context.node.network.links.iter();
    let own = links.flat_map(|link| link.addresses.iter().map(move |address| (link, address)));
    let own = own.map(|(link, (prefix, layer))| spec(&link.name, *prefix, layer.name()));
    let virtual_ips =
        virtual_ips(context).into_iter().map(|(link, prefix)| spec(&link, prefix, "operator"));
    loopback.chain(own).chain(virtual_ips).collect()
}

fn links(context: &ResourceContext<'_>) -> Vec<Item> {
    let virtual_link = |name: &str, index: usize, kind: &str, mac: &str| {
        let is_loopback = name == "lo";
        let spec = json!({
            "index": index,
            "type": if is_loopback { "loopback" } else { "ether" },
            "linkIndex": 0,
            "flags": if is_loopback { "UP,LOOPBACK,RUNNING,LOWER_UP" } else { "BROADCAST,NOARP" },
            "hardwareAddr": mac, "permanentAddr": "", "broadcastAddr": "00:00:00:00:00:00",
            "mtu": if is_loopback { 65536 } else { 1500 },
            "queueDisc": "noqueue",
            "operationalState": if is_loopback { "unknown" } else { "down" },
            "kind": kind, "slaveKind": "", "linkState": is_loopback, "port": "Other", "duplex": "Unknown",
        });
        Item::new(name, spec)
    };
    let own = &context.node.network.links;
    let mut items = vec![virtual_link("lo", 1, "", "00:00:00:00:00:00")];
    // The kernel creates this bond at boot. If the config defines a bond with the same name, only that bond is listed.
    if !own.iter().any(|link| link.name == "bond0") {
        items.push(virtual_link("bond0", 2, "bond", "02:0a:5e:10:00:01"));
    }
    items.push(virtual_link("dummy0", 3, "dummy", "02:0a:5e:10:00:02"));
    items.extend(own.iter().map(|link| Item::new(&link.name, link_status(context, link))));
    items
}

fn link_status(context: &ResourceContext<'_>, link: &Link) -> Value {
    let links = &context.node.network.links;
    let master = links.iter().find(|other| Some(&other.name) == link.master.as_ref());
    let is_up = link.is_up;
    let mut status = json!({
        "index": index(context, &link.name), "type": "ether", "linkIndex": 0,
        "flags": if is_up { "UP,BROADCAST,RUNNING,MULTICAST,LOWER_UP" } else { "UP,BROADCAST,MULTICAST" },
        "hardwareAddr": link.mac, "permanentAddr": link.mac, "broadcastAddr": "ff:ff:ff:ff:ff:ff",
        "mtu": link.mtu, "queueDisc": "noqueue",
        "operationalState": if is_up { "up" } else { "down" },
        "kind": link.kind.name(), "slaveKind": "",
        "linkState": is_up, "port": "Other", "duplex": "Unknown",
    });
    if let Some(alias) = &link.alias {
        status["alias"] = json!(alias);
    }
    match &link.kind {
        LinkKind::Card => {
            let number = index(context, &link.name) - FIRST_CARD;
            status["queueDisc"] = json!("pfifo_fast");
            let slot = FIRST_SLOT + number;
            status["busPath"] = json!(format!("0000:06:{slot:02x}.0"));
            if context.node.version.is_at_least(9) {
                let mac = link.mac.replace(':', "");
                let names = [format!("ens{slot}"), format!("enp6s{slot}"), format!("enx{mac}")];
                status["altNames"] = json!(names);
            }
            status["driver"] = json!("virtio_net");
            status["driverVersion"] = json!("1.0.0");
        }
        LinkKind::Vlan { parent, id, protocol } => {
            status["linkIndex"] = json!(index(context, parent));
            status["vlan"] = json!({ "vlanID": id, "vlanProtocol": protocol });
        }
        LinkKind::Bond { mode } => {
            status["permanentAddr"] = json!("");
            status["bondMaster"] = json!({ "mode": mode });
        }
        LinkKind::Bridge => status["permanentAddr"] = json!(""),
    }
    if let Some(master) = master {
        status["masterIndex"] = json!(index(context, &master.name));
        status["slaveKind"] = json!(master.kind.name());
        // All members of a bond have the MAC address of the bond.
        if matches!(master.kind, LinkKind::Bond { .. }) {
            status["hardwareAddr"] = json!(master.mac);
        }
    }
    status
}
