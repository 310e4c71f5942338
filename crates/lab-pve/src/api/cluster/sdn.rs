//! `/cluster/sdn`: zones and vnets that the caller may audit or allocate.

use serde_json::{Value as Json, json};

use crate::api::reply::data;
use crate::call::{Call, Outcome};

const VIEW_PRIVILEGES: [&str; 2] = ["SDN.Audit", "SDN.Allocate"];

pub(super) fn zones(call: &Call) -> Outcome {
    let pve_state = call.pve_state();
    let kind = call.params.text("type");
    let seen = pve_state.sdn.zones.iter().filter(|(id, zone)| {
        kind.is_none_or(|kind| kind == zone.kind)
            && pve_state.allowed_any(&call.caller, &format!("/sdn/zones/{id}"), &VIEW_PRIVILEGES)
    });
    let shown = seen.map(|(id, zone)| {
        let mut shown = json!({ "zone": id, "type": zone.kind });
        if !zone.nodes.is_empty() {
            let nodes: Vec<&str> = zone.nodes.iter().map(String::as_str).collect();
            shown["nodes"] = json!(nodes.join(","));
        }
        shown
    });
    data(shown.collect::<Vec<Json>>())
}

pub(super) fn vnets(call: &Call) -> Outcome {
    let pve_state = call.pve_state();
    let seen = pve_state.sdn.vnets.iter().filter(|(id, vnet)| {
        let path = format!("/sdn/zones/{}/{id}", vnet.zone);
        pve_state.allowed_any(&call.caller, &path, &VIEW_PRIVILEGES)
    });
    let shown = seen.map(|(id, vnet)| {
        let mut shown = json!({ "vnet": id, "type": "vnet", "zone": vnet.zone });
        if let Some(alias) = &vnet.alias {
            shown["alias"] = json!(alias);
        }
        if let Some(tag) = vnet.tag {
            shown["tag"] = json!(tag);
        }
        if vnet.vlan_aware {
            shown["vlanaware"] = json!(1);
        }
        shown
    });
    data(shown.collect::<Vec<Json>>())
}
