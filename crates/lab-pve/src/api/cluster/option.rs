//! `/cluster/options`: the options of `datacenter.cfg`.

use std::collections::BTreeSet;

use serde_json::{Map, Value as Json, json};

use crate::ApiError;
use crate::api::reply::data;
use crate::call::{Call, Outcome, Reply};
use crate::pve_state::PveState;
use crate::schema::split_list;

/// Options that Proxmox returns as a JSON object, each with the default key of its property string. The name of the default key
/// may be omitted in the property string.
const OBJECT_OPTIONS: [(&str, &str); 10] = [
    ("crs", "ha"),
    ("ha", "shutdown_policy"),
    ("migration", "type"),
    ("next-id", ""),
    ("notify", ""),
    ("replication", "type"),
    ("tag-style", ""),
    ("u2f", ""),
    ("user-tag-access", ""),
    ("webauthn", ""),
];

/// Answers `GET /cluster/options`. A caller with `Sys.Audit` on `/` gets all options, other callers get only `console` and
/// `tag-style`.
pub(super) fn read(call: &Call) -> Outcome {
    let pve_state = call.pve_state();
    let audits = pve_state.allowed(&call.caller, "/", &["Sys.Audit"]);
    let mut shown = Map::new();
    if audits {
        let description = pve_state.datacenter.get("description").map_or("", String::as_str);
        shown.insert("description".to_owned(), json!(description));
        shown.insert("mac_prefix".to_owned(), json!("BC:24:11"));
    }
    for (name, value) in &pve_state.datacenter {
        if audits || matches!(name.as_str(), "console" | "tag-style") {
            shown.insert(name.clone(), option_json(name, value));
        }
    }
    shown.insert("allowed-tags".to_owned(), json!(allowed_tags(call, &pve_state)));
    data(shown)
}

fn option_json(name: &str, value: &str) -> Json {
    if name == "registered-tags" {
        return json!(value.split(';').collect::<Vec<_>>());
    }
    let Some((_, bare)) = OBJECT_OPTIONS.iter().find(|(known, _)| *known == name) else {
        return json!(value);
    };
    let mut parts = Map::new();
    for part in value.split(',') {
        let (key, value) = part.split_once('=').unwrap_or((bare, part));
        let option_json = match key {
            "user-allow-list" => json!(value.split(';').collect::<Vec<_>>()),
            _ => json!(value),
        };
        parts.insert(key.to_owned(), option_json);
    }
    Json::Object(parts)
}

/// Tags that the caller may set on a VM. If the caller may set arbitrary tags, the list contains only the known tags.
fn allowed_tags(call: &Call, pve_state: &PveState) -> BTreeSet<String> {
    let mut allowed = BTreeSet::new();
    let may_all = pve_state.allowed(&call.caller, "/", &["Sys.Modify"]);
    let access = pve_state.datacenter.get("user-tag-access").map_or("", String::as_str);
    let part = |name: &str| {
        let parts = access.split(',').filter_map(|part| part.split_once('='));
        parts.filter(|(key, _)| *key == name).map(|(_, value)| value).next()
    };
    let user_allow = part("user-allow").unwrap_or("free");
    if user_allow != "none" || may_all {
        allowed.extend(split_tags(part("user-allow-list").unwrap_or_default()));
    }
    if matches!(user_allow, "free" | "existing") || may_all {
        for (vmid, vm) in &pve_state.vms {
            if may_all || pve_state.allowed(&call.caller, &format!("/vms/{vmid}"), &["VM.Audit"]) {
                allowed.extend(split_tags(vm.config.get("tags").map_or("", String::as_str)));
            }
        }
    }
    for tag in split_tags(pve_state.datacenter.get("registered-tags").map_or("", String::as_str)) {
        if may_all {
            allowed.insert(tag);
        } else {
            allowed.remove(&tag);
        }
    }
    allowed
}

fn split_tags(tags: &str) -> impl Iterator<Item = String> {
    split_list(tags).into_iter().map(str::to_owned).collect::<Vec<_>>().into_iter()
}

pub(super) fn update(call: &Call) -> Outcome {
    let mut pve_state = call.pve_state();
    let mut options = pve_state.datacenter.clone();
    for (name, value) in call.params.iter().filter(|(name, _)| *name != "delete") {
        options.insert(name.to_owned(), value.to_owned());
    }
    for name in call.params.list("delete") {
        options.remove(name);
    }
    if let Some(range) = options.get("next-id") {
        check_range(range)?;
    }
    pve_state.datacenter = options;
    Ok(Reply::NULL)
}

fn check_range(range: &str) -> Result<(), ApiError> {
    let bound = |name: &str, default: u64| {
        let parts = range.split(',').filter_map(|part| part.split_once('='));
        parts
            .filter(|(key, _)| *key == name)
            .find_map(|(_, value)| value.parse().ok())
            .unwrap_or(default)
    };
    let (lower, upper) = (bound("lower", 100), bound("upper", 1_000_000));
    if lower > upper {
        let text = format!("lower ({lower}) <= upper ({upper}) boundary rule broken");
        return Err(ApiError::failed(text));
    }
    Ok(())
}
