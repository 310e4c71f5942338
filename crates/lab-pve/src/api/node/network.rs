//! `/nodes/{node}/network`: bridges of a host and their network cards.

use std::net::{IpAddr, Ipv4Addr};

use serde_json::{Map, Value as Json, json};

use super::status::host;
use crate::ApiError;
use crate::api::reply::data;
use crate::call::{Call, Outcome};
use crate::pve_state::{Bridge, Host, Vnet};

/// Network interface of a host as JSON.
type Interface = Map<String, Json>;

/// Answers `GET /nodes/{node}/network`: all network cards, and the bridges and vnets that the caller may use or audit.
pub(super) fn list(call: &Call) -> Outcome {
    let pve_state = call.pve_state();
    let host = host(&pve_state, &call.node)?;
    let kind = call.params.text("type");
    let mut shown: Vec<Json> = vec![];
    for (name, mut interface) in interfaces(host) {
        let is_bridge = interface.get("type") == Some(&json!("bridge"));
        let wanted = match kind {
            None | Some("include_sdn") => true,
            Some("any_bridge" | "any_local_bridge") => is_bridge,
            Some(kind) => interface.get("type") == Some(&json!(kind)),
        };
        let seen =
            !is_bridge || call.caller.is_root() || pve_state.can_see_bridge(&call.caller, &name);
        if wanted && seen {
            interface.insert("iface".to_owned(), json!(name));
            shown.push(Json::Object(interface));
        }
    }
    if matches!(kind, Some("any_bridge" | "include_sdn" | "vnet")) {
        let vnets = pve_state.vnets_on(&call.node);
        let seen =
            vnets.filter(|(id, vnet)| pve_state.can_see_in_zone(&call.caller, &vnet.zone, id));
        shown.extend(seen.map(|(id, vnet)| self::vnet(id, vnet)));
    }
    data(shown)
}

fn vnet(id: &str, vnet: &Vnet) -> Json {
    let aware = u8::from(vnet.vlan_aware);
    let mut shown =
        json!({ "iface": id, "type": "vnet", "active": "1", "ipam": 0, "vlanaware": aware });
    if let Some(alias) = &vnet.alias {
        shown["comments"] = json!(alias);
    }
    shown
}

pub(super) fn read(call: &Call) -> Outcome {
    let name = call.params.text("iface").unwrap_or_default();
    let pve_state = call.pve_state();
    let interfaces = interfaces(host(&pve_state, &call.node)?);
    let found = interfaces.into_iter().find(|(known, _)| known == name);
    let found = found.ok_or_else(|| ApiError::parameter("iface", "interface does not exist"))?;
    data(found.1)
}

/// Interfaces of a host: one network card for each bridge, then the bridges.
fn interfaces(host: &Host) -> Vec<(String, Interface)> {
    let cards = (1..=host.bridges.len()).map(|nth| (format!("eno{nth}"), card(nth)));
    let bridges = host.bridges.iter().enumerate();
    let bridges = bridges.map(|(nth, of)| (of.name.clone(), bridge(host, nth + 1, of)));
    cards.chain(bridges).collect()
}

fn card(nth: usize) -> Interface {
    interface(json!({
        "type": "eth",
        "active": 1,
        "exists": 1,
        "families": ["inet"],
        "method": "manual",
        "method6": "manual",
        "priority": nth + 2,
    }))
}

fn bridge(host: &Host, nth: usize, bridge: &Bridge) -> Interface {
    let mut shown = interface(json!({
        "type": "bridge",
        "active": 1,
        "autostart": 1,
        "bridge_fd": "0",
        "bridge_ports": format!("eno{nth}"),
        "bridge_stp": "off",
        "families": ["inet"],
        "method": "manual",
        "method6": "manual",
        "priority": host.bridges.len() + nth + 2,
    }));
    if bridge.vlan_aware {
        shown.extend(interface(json!({ "bridge_vlan_aware": 1, "bridge_vids": "2-4094" })));
    }
    let parsed = bridge.cidr.as_deref().and_then(|cidr| {
        let (address, length) = cidr.split_once('/')?;
        Some((cidr, address.parse::<IpAddr>().ok()?, length.parse::<u32>().ok()?))
    });
    match parsed {
        Some((cidr, IpAddr::V4(address), length)) => {
            let mask = u32::MAX.checked_shl(32 - length.min(32)).unwrap_or_default();
            shown.extend(interface(json!({
                "method": "static",
                "cidr": cidr,
                "address": address.to_string(),
                "netmask": Ipv4Addr::from(mask).to_string(),
            })));
        }
        Some((cidr, IpAddr::V6(address), length)) => {
            shown.extend(interface(json!({
                "families": ["inet", "inet6"],
                "method6": "static",
                "cidr6": cidr,
                "address6": address.to_string(),
                "netmask6": length,
            })));
        }
        None => {}
    }
    if let Some(gateway) = &bridge.gateway {
        let key = if gateway.contains(':') { "gateway6" } else { "gateway" };
        shown.insert(key.to_owned(), json!(gateway));
    }
    shown
}

fn interface(value: Json) -> Interface {
    match value {
        Json::Object(interface) => interface,
        _ => Interface::new(),
    }
}
