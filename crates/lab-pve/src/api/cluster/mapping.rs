//! `/cluster/mapping/pci`: PCI resource mappings. A mapping gives devices of several hosts one name.

use std::collections::BTreeMap;

use serde_json::{Map, Value as Json, json};

use crate::ApiError;
use crate::api::reply::{data, prefix_error};
use crate::call::{Call, Outcome, Reply};
use crate::digest;
use crate::pve_state::{Host, Mapping, PciDevice, PveState};

const OPTIONS: [&str; 3] = ["description", "live-migration-capable", "mdev"];

/// Answers `GET /cluster/mapping/pci`: the mappings that the caller may use or audit. With `check-node`, the answer also
/// contains the problems of each mapping on that host.
pub(super) fn list(call: &Call) -> Outcome {
    let pve_state = call.pve_state();
    let digest = digest_of(&pve_state);
    let checked = call.params.text("check-node");
    let checked = checked.map(|node| if node == "localhost" { &call.node } else { node });
    if let Some(node) = checked {
        check_reachable(&pve_state, node)?;
    }
    let mut entries: Vec<Json> = vec![];
    for (id, mapping) in &pve_state.mappings.pci {
        let path = format!("/mapping/pci/{id}");
        let any = ["Mapping.Modify", "Mapping.Use", "Mapping.Audit"];
        if !pve_state.allowed_any(&call.caller, &path, &any) {
            continue;
        }
        let mut entry = shown(mapping, &digest);
        entry.insert("id".to_owned(), json!(id));
        if let Some(node) = checked {
            entry.insert("checks".to_owned(), json!(checks(&pve_state, id, mapping, node)));
        }
        entries.push(Json::Object(entry));
    }
    data(entries)
}

/// Rejects `check-node` for an offline or unknown host, because only a host itself can list its devices.
fn check_reachable(pve_state: &PveState, node: &str) -> Result<(), ApiError> {
    match pve_state.hosts.get(node) {
        Some(host) if host.online => Ok(()),
        Some(_) => Err(ApiError::new(595, "No route to host")),
        None => Err(ApiError::failed(format!(
            "hostname lookup '{node}' failed - failed to get address info for: {node}: Name or \
             service not known"
        ))),
    }
}

pub(super) fn read(call: &Call) -> Outcome {
    let id = call.params.text("id").unwrap_or_default();
    let pve_state = call.pve_state();
    let mapping = pve_state.mappings.pci.get(id);
    let mapping = mapping.ok_or_else(|| ApiError::failed(format!("mapping '{id}' not found")))?;
    data(shown(mapping, &digest_of(&pve_state)))
}

pub(super) fn create(call: &Call) -> Outcome {
    let id = call.params.text("id").unwrap_or_default();
    let mut pve_state = call.pve_state();
    if pve_state.mappings.pci.contains_key(id) {
        let taken = ApiError::failed(format!("pci ID '{id}' already defined"));
        return prefix_error("create hardware mapping failed", Err(taken));
    }
    let mut mapping = Mapping::default();
    change(call, &mut mapping);
    pve_state.mappings.pci.insert(id.to_owned(), mapping);
    Ok(Reply::NULL)
}

pub(super) fn update(call: &Call) -> Outcome {
    let id = call.params.text("id").unwrap_or_default();
    let mut pve_state = call.pve_state();
    prefix_error("update hardware mapping failed", check_update(call, &pve_state, id))?;
    if let Some(mapping) = pve_state.mappings.pci.get_mut(id) {
        for name in call.params.list("delete") {
            mapping.options.remove(name);
        }
        change(call, mapping);
    }
    Ok(Reply::NULL)
}

fn check_update(call: &Call, pve_state: &PveState, id: &str) -> Result<(), ApiError> {
    digest::check_unchanged(&digest_of(pve_state), call.params.text("digest"))?;
    if !pve_state.mappings.pci.contains_key(id) {
        return Err(ApiError::failed(format!("pci ID '{id}' does not exist")));
    }
    if !call.params.has("map") {
        return Err(ApiError::failed("missing value for required option 'map'"));
    }
    for name in call.params.list("delete") {
        if name == "map" {
            return Err(ApiError::failed("unable to delete required option 'map'"));
        }
        if !OPTIONS.contains(&name) {
            return Err(ApiError::failed(format!("no such option '{name}'")));
        }
        if call.params.has(name) {
            return Err(ApiError::failed(format!(
                "cannot set and delete property '{name}' at the same time!"
            )));
        }
    }
    Ok(())
}

/// Answers `DELETE /cluster/mapping/pci/{id}`, which also succeeds for an unknown id.
pub(super) fn delete(call: &Call) -> Outcome {
    let id = call.params.text("id").unwrap_or_default();
    call.pve_state().mappings.pci.remove(id);
    Ok(Reply::NULL)
}

fn change(call: &Call, mapping: &mut Mapping) {
    if call.params.has("map") {
        mapping.entries = call.params.list("map").into_iter().map(str::to_owned).collect();
    }
    for name in OPTIONS {
        if let Some(value) = call.params.text(name) {
            mapping.options.insert(name.to_owned(), value.to_owned());
        }
    }
}

fn shown(mapping: &Mapping, digest: &str) -> Map<String, Json> {
    let mut shown = Map::new();
    shown.insert("type".to_owned(), json!("pci"));
    shown.insert("map".to_owned(), json!(mapping.entries));
    shown.insert("digest".to_owned(), json!(digest));
    for (name, value) in &mapping.options {
        let returned = match name.as_str() {
            "description" => json!(value),
            _ => json!(u8::from(value == "1")),
        };
        shown.insert(name.clone(), returned);
    }
    shown
}

fn digest_of(pve_state: &PveState) -> String {
    let sections: BTreeMap<String, BTreeMap<String, String>> = pve_state
        .mappings
        .pci
        .iter()
        .map(|(id, mapping)| {
            let mut section = mapping.options.clone();
            section.insert("map".to_owned(), mapping.entries.join(" "));
            (id.clone(), section)
        })
        .collect();
    digest::of_sections(&sections)
}

/// Differences between a mapping and the PCI devices of a host, in the form of `checks` entries.
fn checks(pve_state: &PveState, id: &str, mapping: &Mapping, node: &str) -> Vec<Json> {
    let here: Vec<BTreeMap<&str, &str>> = mapping
        .entries
        .iter()
        .map(|entry| entry.split(',').filter_map(|part| part.split_once('=')).collect())
        .filter(|parts: &BTreeMap<&str, &str>| parts.get("node") == Some(&node))
        .collect();
    if here.is_empty() {
        let message = format!("No mapping for node {node}.");
        return vec![json!({ "severity": "warning", "message": message })];
    }
    let Some(host) = pve_state.hosts.get(node) else { return vec![] };
    let wrong = here.iter().filter_map(|entry| check(id, mapping, entry, host).err());
    wrong
        .map(|why| json!({ "severity": "error", "message": format!("Invalid configuration: {why}\n") }))
        .collect()
}

fn check(
    id: &str,
    mapping: &Mapping,
    entry: &BTreeMap<&str, &str>,
    host: &Host,
) -> Result<(), String> {
    let paths = entry.get("path").copied().unwrap_or_default();
    for (nth, path) in paths.split(';').enumerate() {
        // An address without a function means all functions of the device. The comparison uses function 0.
        let path = if path.contains('.') { path.to_owned() } else { format!("{path}.0") };
        let device = host.pci.iter().find(|device| device.address == path);
        let device = device.ok_or_else(|| format!("pci device '{path}' not found"))?;
        let mdev = mapping.options.get("mdev").map_or("0", String::as_str);
        for (name, expected) in expected(device) {
            if name == "iommugroup" && nth > 0 {
                continue;
            }
            let configured = if name == "mdev" { Some(mdev) } else { entry.get(name).copied() };
            match (expected, configured) {
                (Some(_), None) => {
                    return Err(format!("missing expected property '{name}' for device '{path}'"));
                }
                (None, Some(_)) => {
                    return Err(format!(
                        "unexpected property '{name}' configured for device '{path}'"
                    ));
                }
                (Some(expected), Some(configured)) if expected != configured.replace("0x", "") => {
                    return Err(format!(
                        "'{name}' does not match for '{id}' ({expected} != {configured})"
                    ));
                }
                _ => {}
            }
        }
    }
    Ok(())
}

/// Properties that the mapping of a device must contain, sorted by name.
fn expected(device: &PciDevice) -> [(&'static str, Option<String>); 4] {
    let plain = |id: &str| id.replace("0x", "");
    let subsystem = device.subsystem_vendor.as_ref().zip(device.subsystem_device.as_ref());
    [
        ("id", Some(format!("{}:{}", plain(&device.vendor), plain(&device.device)))),
        ("iommugroup", Some(device.iommu_group.to_string())),
        ("mdev", Some("0".to_owned())),
        (
            "subsystem-id",
            subsystem.map(|(vendor, device)| format!("{}:{}", plain(vendor), plain(device))),
        ),
    ]
}
