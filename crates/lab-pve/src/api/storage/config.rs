//! `/storage`: the sections of `storage.cfg`.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value as Json, json};

use super::super::reply::{data, prefix_error};
use super::options::{
    OptionRule, SECRET, content_list, default_content, is_number, parse_content, required, rule,
};
use super::status::VIEW_PRIVILEGES;
use crate::call::{Call, Outcome, Reply};
use crate::pve_state::{PveState, Storage, StorageKind};
use crate::{ApiError, digest};

/// Capacity in bytes of a storage that a client adds. The API has no parameter for the capacity.
const DEFAULT_CAPACITY: u64 = 4 << 40;

/// Options of a storage as `storage.cfg` contains them.
fn section(storage: &Storage) -> BTreeMap<String, String> {
    let mut section = storage.options.clone();
    section.insert("content".into(), content_list(&storage.content));
    section.insert("type".into(), storage.kind.name().to_owned());
    if !storage.nodes.is_empty() {
        let nodes: Vec<_> = storage.nodes.iter().map(String::as_str).collect();
        section.insert("nodes".into(), nodes.join(","));
    }
    if storage.shared {
        section.insert("shared".into(), "1".into());
    }
    if storage.disabled {
        section.insert("disable".into(), "1".into());
    }
    section
}

fn current_digest(pve_state: &PveState) -> String {
    let sections: BTreeMap<_, _> =
        pve_state.storages.iter().map(|(id, storage)| (id.clone(), section(storage))).collect();
    digest::of_sections(&sections)
}

fn entry(pve_state: &PveState, id: &str, storage: &Storage) -> Json {
    let mut entry: Map<String, Json> = section(storage)
        .into_iter()
        .map(|(option, value)| match value.parse::<i64>() {
            Ok(number) if is_number(&option) => (option, json!(number)),
            _ => (option, json!(value)),
        })
        .collect();
    entry.insert("storage".into(), json!(id));
    entry.insert("digest".into(), json!(current_digest(pve_state)));
    Json::Object(entry)
}

pub(super) fn list(call: &Call) -> Outcome {
    let pve_state = call.pve_state();
    let kind = call.params.text("type");
    let shown = pve_state.storages.iter().filter(|(id, storage)| {
        pve_state.allowed_any(&call.caller, &format!("/storage/{id}"), &VIEW_PRIVILEGES)
            && kind.is_none_or(|kind| kind == storage.kind.name())
    });
    data(shown.map(|(id, storage)| entry(&pve_state, id, storage)).collect::<Vec<_>>())
}

pub(super) fn read(call: &Call) -> Outcome {
    let pve_state = call.pve_state();
    let id = call.params.text("storage").unwrap_or_default();
    data(entry(&pve_state, id, pve_state.storage(id)?))
}

pub(super) fn create(call: &Call) -> Outcome {
    let id = call.params.text("storage").unwrap_or_default();
    let kind = call.params.text("type").unwrap_or_default();
    let Some(kind) = StorageKind::parse(kind) else {
        return Err(ApiError::failed(format!("the lab has no storages of type '{kind}'")));
    };
    let mut given = given(call);
    if matches!(kind, StorageKind::Nfs | StorageKind::Cifs) {
        given.entry("path".into()).or_insert_with(|| format!("/mnt/pve/{id}"));
    }
    for option in given.keys() {
        if rule(call.release, kind, option).is_none() {
            return Err(ApiError::failed(format!("unexpected property '{option}'")));
        }
    }
    if let Some(option) = required(kind).iter().find(|option| !given.contains_key(**option)) {
        return Err(ApiError::failed(format!("missing value for required option '{option}'")));
    }
    if kind == StorageKind::Dir {
        let path = given.entry("path".into()).or_default();
        let usual = |c: char| c.is_ascii_alphanumeric() || "-/_.@".contains(c);
        if path.len() < 2 || !path.starts_with('/') || !path.chars().all(usual) {
            return Err(ApiError::failed(format!("illegal path for directory storage: {path}")));
        }
        *path = canonical(path);
    }
    let mut storage = Storage {
        kind,
        content: default_content(kind),
        shared: matches!(kind, StorageKind::Nfs | StorageKind::Cifs),
        disabled: false,
        nodes: BTreeSet::new(),
        capacity: DEFAULT_CAPACITY,
        full: false,
        options: BTreeMap::new(),
        volumes: BTreeMap::new(),
    };
    set(&mut storage, given, &call.node)?;
    let mut pve_state = call.pve_state();
    if pve_state.storages.contains_key(id) {
        let error = ApiError::failed(format!("storage ID '{id}' already defined"));
        return prefix_error("create storage failed", Err(error));
    }
    pve_state.storages.insert(id.to_owned(), storage);
    data(json!({ "storage": id, "type": kind.name() }))
}

/// Parameters of the call that become options of the section.
fn given(call: &Call) -> BTreeMap<String, String> {
    let names = ["storage", "type", "delete", "digest"];
    let sent = call.params.iter().filter(|(name, _)| !names.contains(name));
    let mut given: BTreeMap<String, String> =
        sent.map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
    given.retain(|name, value| name != "nodes" || !value.is_empty());
    given
}

/// Path without repeated or trailing slashes.
fn canonical(path: &str) -> String {
    let parts: Vec<_> = path.split('/').filter(|part| !part.is_empty() && *part != ".").collect();
    format!("/{}", parts.join("/"))
}

fn set(storage: &mut Storage, given: BTreeMap<String, String>, node: &str) -> Result<(), ApiError> {
    for (option, value) in given {
        let items = || value.split([',', ';', ' ']).filter(|item| !item.is_empty());
        match option.as_str() {
            "content" => {
                storage.content = parse_content(storage.kind, &items().collect::<Vec<_>>())?;
            }
            "nodes" => storage.nodes = items().map(str::to_owned).collect(),
            "shared" => share(storage, value == "1", node),
            "disable" => storage.disabled = value == "1",
            secret if SECRET.contains(&secret) => {}
            _ => {
                storage.options.insert(option, value);
            }
        }
    }
    Ok(())
}

/// Changes the `shared` flag of a storage. If the storage becomes shared, the volumes of all hosts become visible to every
/// host. If it becomes local, all its volumes belong to `node`.
fn share(storage: &mut Storage, shared: bool, node: &str) {
    if storage.shared == shared {
        return;
    }
    storage.shared = shared;
    let all = std::mem::take(&mut storage.volumes).into_values().flatten().collect();
    let place = if shared { "" } else { node };
    storage.volumes.insert(place.to_owned(), all);
}

pub(super) fn update(call: &Call) -> Outcome {
    let id = call.params.text("storage").unwrap_or_default();
    let kind = prefix_error("update storage failed", change(call, id))?;
    data(json!({ "storage": id, "type": kind.name() }))
}

fn change(call: &Call, id: &str) -> Result<StorageKind, ApiError> {
    let mut pve_state = call.pve_state();
    digest::check_unchanged(&current_digest(&pve_state), call.params.text("digest"))?;
    let kind = pve_state.storage(id)?.kind;
    let given = given(call);
    for option in given.keys() {
        let text = match rule(call.release, kind, option) {
            Some(OptionRule::Optional) => continue,
            Some(_) => format!("can't change value of fixed parameter '{option}'"),
            None => format!("unexpected property '{option}'"),
        };
        return Err(ApiError::failed(text));
    }
    let gone = call.params.list("delete");
    for option in &gone {
        let text = match rule(call.release, kind, option) {
            None => format!("no such option '{option}'"),
            Some(OptionRule::Fixed) => format!("unable to delete required option '{option}'"),
            Some(OptionRule::FixedIfGiven) => format!("unable to delete fixed option '{option}'"),
            Some(OptionRule::Optional) if given.contains_key(*option) => {
                format!("cannot set and delete property '{option}' at the same time!")
            }
            Some(OptionRule::Optional) => continue,
        };
        return Err(ApiError::failed(text));
    }
    let Some(storage) = pve_state.storages.get_mut(id) else { return Ok(kind) };
    let mut changed = storage.clone();
    for option in gone {
        match option {
            "content" => changed.content = default_content(kind),
            "nodes" => changed.nodes.clear(),
            "shared" => share(&mut changed, false, &call.node),
            "disable" => changed.disabled = false,
            _ => {
                changed.options.remove(option);
            }
        }
    }
    set(&mut changed, given, &call.node)?;
    *storage = changed;
    Ok(kind)
}

/// Answers `DELETE /storage/{storage}`: removes the section, and the access control list entries of the storage. The volumes
/// stay on disk, but are no longer accessible.
pub(super) fn delete(call: &Call) -> Outcome {
    let id = call.params.text("storage").unwrap_or_default();
    let mut pve_state = call.pve_state();
    prefix_error("delete storage failed", pve_state.storage(id).map(drop))?;
    pve_state.storages.remove(id);
    let path = format!("/storage/{id}");
    pve_state.access.acl.retain(|entry| entry.path != path);
    for pool in pve_state.pools.values_mut() {
        pool.storages.remove(id);
    }
    Ok(Reply::NULL)
}
