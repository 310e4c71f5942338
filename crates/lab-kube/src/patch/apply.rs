//! Server-side apply and `managedFields`.

use serde_json::{Value, json};

use super::fields::{self, FieldSet, StrategyOf};
use super::merge_strategy::{self, MergeStrategy};
use crate::failure::Failure;
use crate::kind::Kind;
use crate::object;

/// Field manager of a request.
#[derive(Clone, Debug)]
pub(crate) struct Manager<'m> {
    pub(crate) name: &'m str,
    pub(crate) subresource: &'m str,
    pub(crate) time: &'m str,
    pub(crate) api_version: &'m str,
}

fn strategies(kind: &Kind) -> StrategyOf {
    if kind.custom.is_some() { merge_strategy::of_custom } else { merge_strategy::of }
}

/// Returns the object after `manager` applied `config`. With `force`, `manager` takes over fields that belong to other
/// managers.
pub(crate) fn apply(
    kind: &Kind,
    live: &Value,
    config: &Value,
    manager: &Manager<'_>,
    force: bool,
) -> Result<Value, Failure> {
    let strategy_of = strategies(kind);
    let wanted = fields::of(config, strategy_of);
    let mut entries = entries(live);
    let is_mine = |entry: &Value| is_entry(entry, manager, "Apply");
    let mut conflicts = vec![];
    for entry in entries.iter().filter(|entry| !is_mine(entry)) {
        let mut found = vec![];
        fields::clashes(&wanted, &fields_of(entry), live, config, "", &mut found);
        let name = shown(entry);
        conflicts.extend(found.into_iter().map(|path| (name.clone(), path)));
    }
    if !conflicts.is_empty() && !force {
        return Err(Failure::apply_conflict(&conflicts));
    }
    let mut merged = live.clone();
    merge(&mut merged, config, "", strategy_of);
    if let Some(mine) = entries.iter().find(|entry| is_mine(entry)) {
        let mut dropped = fields_of(mine);
        fields::subtract(&mut dropped, &wanted);
        let others = entries.iter().filter(|entry| !is_mine(entry)).map(fields_of);
        // A mapping that the config contains stays in the object, even if it is empty.
        let others: Vec<FieldSet> = others.chain([wanted.clone()]).collect();
        fields::prune(&mut merged, &dropped, &others.iter().collect::<Vec<_>>());
    }
    if !conflicts.is_empty() {
        let taken = fields::changed(live, config, strategy_of);
        for entry in entries.iter_mut().filter(|entry| !is_mine(entry)) {
            let mut theirs = fields_of(entry);
            fields::subtract(&mut theirs, &taken);
            entry["fieldsV1"] = Value::Object(theirs);
        }
    }
    put_entry(&mut entries, manager, "Apply", &wanted);
    store_entries(&mut merged, entries);
    Ok(merged)
}

/// Records in `managedFields` that the manager changed the fields that differ between `old` and `new`.
pub(crate) fn track(kind: &Kind, old: &Value, new: &mut Value, manager: &Manager<'_>) {
    let changed = fields::changed(old, new, strategies(kind));
    let mut entries = entries(old);
    for entry in &mut entries {
        let mut theirs = fields_of(entry);
        if !is_entry(entry, manager, "Update") {
            fields::subtract(&mut theirs, &changed);
        }
        fields::retain_existing(&mut theirs, new);
        entry["fieldsV1"] = Value::Object(theirs);
    }
    if !changed.is_empty() {
        let mine = entries.iter().find(|entry| is_entry(entry, manager, "Update"));
        let mut all = mine.map(fields_of).unwrap_or_default();
        fields::union(&mut all, &changed);
        put_entry(&mut entries, manager, "Update", &all);
    }
    store_entries(new, entries);
}

fn entries(object: &Value) -> Vec<Value> {
    object::list(object, "/metadata/managedFields").to_vec()
}

/// Manager of a `managedFields` entry, in the form of conflict messages.
fn shown(entry: &Value) -> String {
    let mut text = format!("{:?}", object::text(entry, "/manager"));
    if let Some(subresource) = entry["subresource"].as_str() {
        text += &format!(" with subresource {subresource:?}");
    }
    if entry["operation"] == "Update" {
        text += &format!(" using {}", object::text(entry, "/apiVersion"));
    }
    text
}

fn fields_of(entry: &Value) -> FieldSet {
    entry["fieldsV1"].as_object().cloned().unwrap_or_default()
}

fn is_entry(entry: &Value, manager: &Manager<'_>, operation: &str) -> bool {
    entry["manager"] == manager.name
        && entry["operation"] == operation
        && object::text(entry, "/subresource") == manager.subresource
}

fn put_entry(entries: &mut Vec<Value>, manager: &Manager<'_>, operation: &str, fields: &FieldSet) {
    let old = entries.iter().find(|entry| is_entry(entry, manager, operation));
    let is_same = old.is_some_and(|entry| entry["fieldsV1"].as_object() == Some(fields));
    if is_same {
        return;
    }
    entries.retain(|entry| !is_entry(entry, manager, operation));
    let mut entry = json!({
        "manager": manager.name,
        "operation": operation,
        "apiVersion": manager.api_version,
        "time": manager.time,
        "fieldsType": "FieldsV1",
        "fieldsV1": fields,
    });
    if !manager.subresource.is_empty() {
        entry["subresource"] = manager.subresource.into();
    }
    entries.push(entry);
}

fn store_entries(object: &mut Value, mut entries: Vec<Value>) {
    entries.retain(|entry| entry["fieldsV1"].as_object().is_some_and(|fields| !fields.is_empty()));
    let metadata = object::metadata(object);
    if entries.is_empty() {
        metadata.shift_remove("managedFields");
    } else {
        metadata.insert("managedFields".to_owned(), Value::Array(entries));
    }
}

fn merge(target: &mut Value, config: &Value, parent: &str, strategy_of: StrategyOf) {
    let Some(config) = config.as_object() else {
        *target = config.clone();
        return;
    };
    if !target.is_object() {
        *target = json!({});
    }
    let Some(map) = target.as_object_mut() else { return };
    for (key, value) in config {
        let slot = map.entry(key.clone()).or_insert(Value::Null);
        match (value, strategy_of(parent, key)) {
            (Value::Array(items), MergeStrategy::Keyed(keys)) if slot.is_array() => {
                let Some(list) = slot.as_array_mut() else { continue };
                for item in items {
                    let wanted = merge_strategy::key(item, keys);
                    match list.iter_mut().find(|other| merge_strategy::key(other, keys) == wanted) {
                        Some(old) => merge(old, item, key, strategy_of),
                        None => list.push(item.clone()),
                    }
                }
            }
            (Value::Array(items), MergeStrategy::Set) if slot.is_array() => {
                let Some(list) = slot.as_array_mut() else { continue };
                for item in items {
                    if !list.contains(item) {
                        list.push(item.clone());
                    }
                }
            }
            _ => merge(slot, value, key, strategy_of),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kind::Kinds;

    fn manager(name: &str) -> Manager<'_> {
        Manager { name, subresource: "", time: "2026-01-01T00:00:00Z", api_version: "apps/v1" }
    }

    fn deployment(images: &[(&str, &str)], labels: &Value) -> Value {
        let containers: Vec<Value> =
            images.iter().map(|(name, image)| json!({"name": name, "image": image})).collect();
        json!({
            "metadata": {"name": "web", "labels": labels},
            "spec": {"template": {"spec": {"containers": containers}}},
        })
    }

    #[test]
    fn fields_removed_from_an_applied_config_are_deleted_unless_another_manager_owns_them() {
        let kinds = Kinds::default();
        let kind = kinds.get("deployments.apps").unwrap();
        let first = deployment(&[("a", "1"), ("b", "1")], &json!({"x": "1", "y": "1"}));
        let live = apply(kind, &json!({}), &first, &manager("one"), false).unwrap();
        let mut scaled = live.clone();
        scaled["spec"]["replicas"] = 3.into();
        track(kind, &live, &mut scaled, &manager("kubectl"));
        let second = deployment(&[("a", "2")], &json!({"x": "1"}));
        let live = apply(kind, &scaled, &second, &manager("one"), false).unwrap();
        assert_eq!(live["spec"]["replicas"], 3);
        assert_eq!(live["metadata"]["labels"], json!({"x": "1"}));
        let containers = &live["spec"]["template"]["spec"]["containers"];
        assert_eq!(*containers, json!([{"name": "a", "image": "2"}]));
    }

    #[test]
    fn conflict_messages_name_update_managers_with_their_api_version() {
        let kinds = Kinds::default();
        let kind = kinds.get("deployments.apps").unwrap();
        let mut live =
            json!({"metadata": {"name": "web"}, "spec": {"replicas": 3, "paused": true}});
        track(kind, &Value::Null, &mut live, &manager("kubectl"));
        let config = json!({"metadata": {"name": "web"}, "spec": {"replicas": 1, "paused": false}});
        let failure = apply(kind, &live, &config, &manager("one"), false).unwrap_err();
        let wanted = "Apply failed with 2 conflicts: conflicts with \"kubectl\" using apps/v1:\n- .spec.replicas\n- .spec.paused";
        assert_eq!(failure.message, wanted);
    }

    #[test]
    fn managers_with_different_values_conflict_unless_forced() {
        let kinds = Kinds::default();
        let kind = kinds.get("deployments.apps").unwrap();
        let live = deployment(&[("a", "1")], &json!({"x": "1"}));
        let live = apply(kind, &json!({}), &live, &manager("one"), false).unwrap();
        let same = deployment(&[("a", "1")], &json!({}));
        apply(kind, &live, &same, &manager("two"), false).unwrap();
        let other = deployment(&[("a", "2")], &json!({}));
        let failure = apply(kind, &live, &other, &manager("two"), false).unwrap_err();
        assert_eq!(
            failure.message,
            "Apply failed with 1 conflict: conflict with \"one\": .spec.template.spec.containers[name=\"a\"].image"
        );
        let taken = apply(kind, &live, &other, &manager("two"), true).unwrap();
        assert_eq!(taken["spec"]["template"]["spec"]["containers"][0]["image"], "2");
        let back = apply(kind, &taken, &same, &manager("one"), false).unwrap_err();
        assert_eq!(back.code, 409);
    }
}
