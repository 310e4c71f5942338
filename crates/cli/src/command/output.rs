//! `talmox output`: per-node facts.

use serde_json::{Map, Value, json};
use talmox_engine::desired::{Desired, DesiredNode};
use talmox_pve::api::qemu::Vm;

/// What other tools want to know of each node.
pub(crate) fn facts(
    desired: &Desired,
    places: Vec<(&DesiredNode, Option<Vm>)>,
) -> Map<String, Value> {
    let mut all = Map::new();
    for (node, place) in places {
        let address = node.addresses.first().map(ToString::to_string);
        all.insert(
            node.name.clone(),
            json!({
                "vmid": place.as_ref().map(|place| place.vmid.get()),
                "vm_name": node.name,
                "node": place.as_ref().map(|place| place.node.to_string()),
                "ip_address": address,
                "mac_address": node.identity.macs.first().map(ToString::to_string),
                "role": if node.is_control_plane { "controlplane" } else { "worker" },
                "talos_version": node.is_talos.then(|| desired.talos_version.clone()),
                "kubernetes_version": node.is_talos.then(|| desired.kubernetes_version.clone()),
            }),
        );
    }
    all
}

/// The same for people.
pub(crate) fn table(facts: &Map<String, Value>) -> String {
    const COLUMNS: [(&str, &str); 5] = [
        ("role", "ROLE"),
        ("vmid", "VMID"),
        ("node", "HOST"),
        ("ip_address", "ADDRESS"),
        ("mac_address", "MAC"),
    ];
    let text = |value: &Value| match value {
        Value::Null => "-".to_owned(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    let mut rows: Vec<Vec<String>> = vec![
        std::iter::once("NODE")
            .chain(COLUMNS.iter().map(|(_, title)| *title))
            .map(str::to_owned)
            .collect(),
    ];
    for (name, fact) in facts {
        let cells = COLUMNS.iter().map(|(key, _)| text(&fact[*key]));
        rows.push(std::iter::once(name.clone()).chain(cells).collect());
    }
    crate::words::aligned(&rows)
}
