//! `/nodes/{node}/storage`: status of storages on one host.

use serde_json::{Map, Value as Json, json};

use super::super::index;
use super::super::reply::{data, flag};
use super::options::content_list;
use crate::call::{Call, Outcome};
use crate::pve_state::{ContentType, Storage};
use crate::storage::{default_format, formats};
use crate::{ApiError, Release};

/// Privileges to see a storage. One of them is sufficient.
pub(super) const VIEW_PRIVILEGES: [&str; 2] = ["Datastore.Audit", "Datastore.AllocateSpace"];

fn is_enabled(storage: &Storage, node: &str) -> bool {
    !storage.disabled && storage.is_on(node)
}

fn entry(storage: &Storage, node: &str, with_formats: bool) -> Map<String, Json> {
    let enabled = is_enabled(storage, node);
    let (total, used) = if enabled { (storage.capacity, storage.used(node)) } else { (0, 0) };
    let mut entry = Map::new();
    entry.insert("active".into(), flag(enabled));
    entry.insert("avail".into(), json!(total.saturating_sub(used)));
    entry.insert("content".into(), json!(content_list(&storage.content)));
    entry.insert("enabled".into(), flag(enabled));
    if with_formats && enabled {
        let supported = formats(storage);
        let default = default_format(storage);
        let valid: Map<String, Json> =
            supported.iter().map(|format| ((*format).to_owned(), json!(1))).collect();
        entry.insert("format".into(), json!([valid, default]));
        entry.insert("formats".into(), json!({ "default": default, "supported": supported }));
    }
    entry.insert("shared".into(), flag(storage.shared));
    entry.insert("total".into(), json!(total));
    entry.insert("type".into(), json!(storage.kind.name()));
    entry.insert("used".into(), json!(used));
    entry
}

#[expect(clippy::cast_precision_loss, reason = "a fraction needs no more digits")]
fn used_fraction(total: u64, used: u64) -> f64 {
    used as f64 / total as f64
}

pub(super) fn list(call: &Call) -> Outcome {
    let pve_state = call.pve_state();
    let wanted = call.params.list("content");
    let wanted: Vec<_> = wanted.into_iter().filter_map(ContentType::parse).collect();
    let by_content = |storage: &Storage| {
        !call.params.has("content")
            || is_enabled(storage, &call.node)
                && wanted.iter().any(|content| storage.content.contains(content))
    };
    let one = call.params.text("storage");
    if let Some(id) = one
        && !pve_state.storages.get(id).is_some_and(by_content)
    {
        return Err(ApiError::parameter("storage", "No such storage."));
    }
    let target =
        call.params.text("target").filter(|target| ![&call.node, "localhost"].contains(target));
    let only_enabled = call.params.flag("enabled") == Some(true);
    let mut shown = vec![];
    for (id, storage) in &pve_state.storages {
        let hidden = !by_content(storage)
            || one.is_some_and(|one| one != id)
            || only_enabled && storage.disabled
            || !pve_state.allowed_any(&call.caller, &format!("/storage/{id}"), &VIEW_PRIVILEGES);
        let unreachable = target.is_some_and(|target| {
            !storage.shared || !storage.is_on(&call.node) || !storage.is_on(target)
        });
        if hidden || unreachable {
            continue;
        }
        let mut entry = entry(storage, &call.node, call.params.flag("format") == Some(true));
        entry.insert("storage".into(), json!(id));
        if is_enabled(storage, &call.node) && storage.capacity > 0 {
            let fraction = used_fraction(storage.capacity, storage.used(&call.node));
            entry.insert("used_fraction".into(), json!(fraction));
        }
        shown.push(Json::Object(entry));
    }
    data(shown)
}

pub(super) fn read(call: &Call) -> Outcome {
    let pve_state = call.pve_state();
    let id = call.params.text("storage").unwrap_or_default();
    let storage = pve_state.storages.get(id);
    let storage = storage.ok_or_else(|| ApiError::parameter("storage", "No such storage."))?;
    data(entry(storage, &call.node, false))
}

pub(super) fn index(call: &Call) -> Outcome {
    let since = |release, name| (call.release >= release).then_some(name);
    let names = [
        Some("content"),
        Some("download-url"),
        Some("file-restore"),
        Some("import-metadata"),
        since(Release::V9, "identity"),
        since(Release::V9, "oci-registry-pull"),
        Some("prunebackups"),
        Some("rrd"),
        Some("rrddata"),
        Some("status"),
        Some("upload"),
    ];
    index::of("subdir", &names.into_iter().flatten().collect::<Vec<_>>())
}
