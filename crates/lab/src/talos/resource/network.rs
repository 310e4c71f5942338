//! Links, addresses, names.

use serde_json::{Value, json};
use talmox_talos_config::network::Prefix;

use super::proto::{Field, Form};
use super::{Item, KIND, Kind, View};
use crate::talos::link::{Link, LinkKind};

const NETWORK: &str = "network";
pub(super) const FAMILIES: &[(&str, u64)] = &[("inet4", 2), ("inet6", 10)];
pub(super) const SCOPES: &[(&str, u64)] =
    &[("global", 0), ("site", 200), ("link", 253), ("host", 254), ("nowhere", 255)];
const ADDRESS_STATUS: &[Field] = &[
    ("address", 1, Form::Prefix),
    ("local", 2, Form::Address),
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
    (
        "layer",
        7,
        Form::Enum(&[("cmdline", 1), ("platform", 2), ("operator", 3), ("configuration", 4)]),
    ),
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
];

pub(super) const KINDS: &[Kind] = &[
    Kind {
        name: "HostnameStatuses.net.talos.dev",
        namespace: NETWORK,
        aliases: &["hostname"],
        columns: &[("Hostname", "{.hostname}"), ("Domainname", "{.domainname}")],
        proto: &[("hostname", 1, Form::Text), ("domainname", 2, Form::Text)],
        list: |view| {
            let network = &view.node.network;
            let spec = json!({ "hostname": network.hostname, "domainname": network.domain });
            vec![Item::new("hostname", spec)]
        },
        ..KIND
    },
    Kind {
        name: "AddressStatuses.net.talos.dev",
        namespace: NETWORK,
        aliases: &["address", "addresses"],
        columns: &[("Address", "{.address}"), ("Link", "{.linkName}")],
        proto: ADDRESS_STATUS,
        list: address_statuses,
        ..KIND
    },
    Kind {
        name: "AddressSpecs.net.talos.dev",
        namespace: NETWORK,
        proto: ADDRESS_SPEC,
        list: address_specs,
        ..KIND
    },
    Kind {
        name: "LinkStatuses.net.talos.dev",
        namespace: NETWORK,
        aliases: &["link", "links"],
        columns: &[
            ("Alias", "{.alias}"),
            ("Type", "{.type}"),
            ("Kind", "{.kind}"),
            ("Hw Addr", "{.hardwareAddr}"),
            ("Oper State", "{.operationalState}"),
            ("Link State", "{.linkState}"),
        ],
        proto: LINK_STATUS,
        list: links,
        ..KIND
    },
    Kind {
        name: "NodeAddresses.net.talos.dev",
        namespace: NETWORK,
        columns: &[("Addresses", "{.addresses}")],
        proto: &[("addresses", 1, Form::Each(&Form::Prefix))],
        list: node_addresses,
        ..KIND
    },
];

/// Every address that the node has, with its link: loopback, its own, and shared ones.
fn all(view: &View<'_>) -> Vec<(String, Prefix)> {
    let network = &view.node.network;
    let mut found: Vec<(String, Prefix)> = ["127.0.0.1/8", "::1/128"]
        .iter()
        .filter_map(|text| Some(("lo".to_owned(), text.parse().ok()?)))
        .collect();
    for link in &network.links {
        found.extend(link.addresses.iter().map(|(prefix, _)| (link.name.clone(), *prefix)));
    }
    found.extend(shared(view));
    found
}

/// Shared addresses are on the link that the config has them on; others, on the one whose network they are in.
fn shared(view: &View<'_>) -> Vec<(String, Prefix)> {
    let network = &view.node.network;
    let held = network.shared.iter().filter_map(|address| {
        let on = |link: &&Link| link.addresses.iter().any(|(own, _)| own.contains(*address));
        let facts = view.node.config.iter().flat_map(|config| &config.facts.links);
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

pub(super) fn index(view: &View<'_>, link: &str) -> usize {
    let position = view.node.network.links.iter().position(|known| known.name == link);
    position.map_or(1, |position| position + FIRST_CARD)
}

/// After loopback, and the devices that the kernel makes of itself.
const FIRST_CARD: usize = 8;

fn address_statuses(view: &View<'_>) -> Vec<Item> {
    all(view)
        .into_iter()
        .map(|(link, prefix)| {
            let spec = json!({
                "address": prefix.to_string(),
                "local": prefix.address().to_string(),
                "linkIndex": index(view, &link),
                "linkName": link,
                "family": family(prefix),
                "scope": if link == "lo" { "host" } else { "global" },
                "flags": "permanent",
            });
            Item::new(format!("{link}/{prefix}"), spec)
        })
        .collect()
}

fn address_specs(view: &View<'_>) -> Vec<Item> {
    let spec = |link: &str, prefix: Prefix, layer: &str| {
        let spec = json!({
            "address": prefix.to_string(), "linkName": link, "family": family(prefix),
            "scope": "global", "flags": "permanent", "layer": layer,
        });
        Item::new(format!("{link}/{prefix}"), spec)
    };
    let links = view.node.network.links.iter();
    let own = links.flat_map(|link| link.addresses.iter().map(move |address| (link, address)));
    let own = own.map(|(link, (prefix, layer))| spec(&link.name, *prefix, layer.name()));
    let shared = shared(view).into_iter().map(|(link, prefix)| spec(&link, prefix, "operator"));
    own.chain(shared).collect()
}

fn links(view: &View<'_>) -> Vec<Item> {
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
    let own = &view.node.network.links;
    let mut items = vec![virtual_link("lo", 1, "", "00:00:00:00:00:00")];
    // The kernel makes one, which a config may use.
    if !own.iter().any(|link| link.name == "bond0") {
        items.push(virtual_link("bond0", 2, "bond", "02:0a:5e:10:00:01"));
    }
    items.push(virtual_link("dummy0", 3, "dummy", "02:0a:5e:10:00:02"));
    items.extend(own.iter().map(|link| Item::new(&link.name, link_status(view, link))));
    items
}

fn link_status(view: &View<'_>, link: &Link) -> Value {
    let links = &view.node.network.links;
    let master = links.iter().find(|other| Some(&other.name) == link.master.as_ref());
    let is_up = link.is_up;
    let mut status = json!({
        "index": index(view, &link.name), "type": "ether", "linkIndex": 0,
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
            let number = index(view, &link.name) - FIRST_CARD;
            status["queueDisc"] = json!("pfifo_fast");
            status["busPath"] = json!(format!("0000:06:{:02x}.0", 0x12 + number));
            status["driver"] = json!("virtio_net");
            status["driverVersion"] = json!("1.0.0");
        }
        LinkKind::Vlan { parent, id, protocol } => {
            status["linkIndex"] = json!(index(view, parent));
            status["vlan"] = json!({ "vlanID": id, "vlanProtocol": protocol });
        }
        LinkKind::Bond { mode } => {
            status["permanentAddr"] = json!("");
            status["bondMaster"] = json!({ "mode": mode });
        }
        LinkKind::Bridge => status["permanentAddr"] = json!(""),
    }
    if let Some(master) = master {
        status["masterIndex"] = json!(index(view, &master.name));
        status["slaveKind"] = json!(master.kind.name());
        // All of a bond speak with one address.
        if matches!(master.kind, LinkKind::Bond { .. }) {
            status["hardwareAddr"] = json!(master.mac);
        }
    }
    status
}

/// The addresses as other controllers want them: the first, all of now, all of ever, those of routes,
/// and each without what belongs to Kubernetes.
fn node_addresses(view: &View<'_>) -> Vec<Item> {
    let network = &view.node.network;
    let own = network.links.iter().flat_map(|link| link.addresses.iter());
    let own: Vec<String> = own.map(|(prefix, _)| prefix.to_string()).collect();
    let shared: Vec<String> =
        shared(view).into_iter().map(|(_, prefix)| prefix.to_string()).collect();
    let current: Vec<String> = own.iter().chain(&shared).cloned().collect();
    let algorithm = "v1";
    let item = |id: &str, addresses: &[String]| {
        Item::new(id, json!({ "addresses": addresses, "sortAlgorithm": algorithm }))
    };
    let mut items = vec![
        item("accumulative", &current),
        item("current", &current),
        item("default", &own[..own.len().min(1)]),
        item("routed", &own),
    ];
    if view.node.config.is_some() {
        items.push(item("accumulative-no-k8s", &current));
        items.push(item("current-no-k8s", &current));
        items.push(item("routed-no-k8s", &own));
    }
    items
}
