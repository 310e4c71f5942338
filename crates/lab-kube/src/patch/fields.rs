//! Sets of fields in the format of `managedFields`: a tree of mappings. The key `f:name` is a field, `k:{…}` is an item of a
//! keyed list, `v:…` is a member of a set, and `.` is the item itself. A leaf is an empty mapping.

use serde_json::{Map, Value, json};

use super::merge_strategy::{self, MergeStrategy};

pub(super) type FieldSet = Map<String, Value>;
pub(super) type StrategyOf = fn(&str, &str) -> MergeStrategy;

/// Fields that the API server sets. They have no manager.
const SYSTEM: [&str; 11] = [
    "name",
    "namespace",
    "uid",
    "resourceVersion",
    "generation",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "managedFields",
    "selfLink",
    "generateName",
];

/// Set of all fields of an object.
pub(super) fn of(object: &Value, strategy_of: StrategyOf) -> FieldSet {
    changed(&Value::Null, object, strategy_of)
}

/// Fields of `new` that are missing or different in `old`.
pub(super) fn changed(old: &Value, new: &Value, strategy_of: StrategyOf) -> FieldSet {
    let mut all = changed_map(old, new, "", strategy_of);
    all.shift_remove("f:apiVersion");
    all.shift_remove("f:kind");
    if let Some(metadata) = all.get_mut("f:metadata").and_then(Value::as_object_mut) {
        metadata.retain(|key, _| !SYSTEM.contains(&key.trim_start_matches("f:")));
        if metadata.is_empty() {
            all.shift_remove("f:metadata");
        }
    }
    all
}

fn changed_map(old: &Value, new: &Value, parent: &str, strategy_of: StrategyOf) -> FieldSet {
    let mut fields = FieldSet::new();
    for (key, value) in new.as_object().into_iter().flatten() {
        let before = old.get(key).unwrap_or(&Value::Null);
        if before == value && !value.is_null() {
            continue;
        }
        let inner = match (value, strategy_of(parent, key)) {
            // An empty mapping is recorded with the key `.`.
            (Value::Object(map), _) if map.is_empty() => {
                FieldSet::from_iter([(".".to_owned(), json!({}))])
            }
            (Value::Object(_), _) => changed_map(before, value, key, strategy_of),
            (Value::Array(items), MergeStrategy::Keyed(keys)) => {
                changed_items(before, items, keys, key, strategy_of)
            }
            (Value::Array(items), MergeStrategy::Set) => {
                let known = before.as_array();
                let is_new = |item: &&Value| known.is_none_or(|known| !known.contains(item));
                items.iter().filter(is_new).map(|item| (format!("v:{item}"), json!({}))).collect()
            }
            _ => FieldSet::new(),
        };
        fields.insert(format!("f:{key}"), Value::Object(inner));
    }
    fields
}

fn changed_items(
    old: &Value,
    items: &[Value],
    keys: &[&str],
    field: &str,
    strategy_of: StrategyOf,
) -> FieldSet {
    let mut fields = FieldSet::new();
    for item in items {
        let key = merge_strategy::key(item, keys);
        let step = format!("k:{}", Value::Object(key));
        let before = child(old, &step);
        if before == Some(item) {
            continue;
        }
        let mut inner = changed_map(before.unwrap_or(&Value::Null), item, field, strategy_of);
        if before.is_none() {
            inner.insert(".".to_owned(), json!({}));
        }
        fields.insert(step, Value::Object(inner));
    }
    fields
}

/// Value that one key of a field set refers to.
pub(super) fn child<'v>(value: &'v Value, step: &str) -> Option<&'v Value> {
    match step.split_at_checked(2)? {
        ("f:", name) => value.get(name),
        _ => value.as_array()?.iter().find(|item| is_selected(item, step)),
    }
}

/// Whether a key of a field set refers to this list item.
fn is_selected(item: &Value, step: &str) -> bool {
    match step.split_at_checked(2) {
        Some(("k:", text)) => serde_json::from_str::<FieldSet>(text).is_ok_and(|wanted| {
            let names: Vec<&str> = wanted.keys().map(String::as_str).collect();
            merge_strategy::key(item, &names) == wanted
        }),
        Some(("v:", text)) => serde_json::from_str::<Value>(text).is_ok_and(|value| *item == value),
        _ => false,
    }
}

fn inner<'f>(fields: &'f FieldSet, step: &str) -> Option<&'f FieldSet> {
    fields.get(step).and_then(Value::as_object)
}

pub(super) fn union(into: &mut FieldSet, more: &FieldSet) {
    for (step, value) in more {
        match (into.get_mut(step).and_then(Value::as_object_mut), value.as_object()) {
            (Some(into), Some(more)) => union(into, more),
            _ => drop(into.insert(step.clone(), value.clone())),
        }
    }
}

/// Removes every leaf that is also in `less`.
pub(super) fn subtract(from: &mut FieldSet, less: &FieldSet) {
    from.retain(|step, value| {
        let (Some(value), Some(less)) = (value.as_object_mut(), inner(less, step)) else {
            return true;
        };
        if value.is_empty() || less.is_empty() {
            return false;
        }
        subtract(value, less);
        !value.is_empty()
    });
}

/// Removes fields from the set that the object no longer has.
pub(super) fn retain_existing(fields: &mut FieldSet, object: &Value) {
    fields.retain(|step, value| {
        if step == "." {
            return true;
        }
        let Some(found) = child(object, step) else { return false };
        if let Some(value) = value.as_object_mut() {
            retain_existing(value, found);
        }
        true
    });
}

/// Paths that are in both sets, and whose values differ between the two objects.
pub(super) fn clashes(
    fields: &FieldSet,
    others: &FieldSet,
    live: &Value,
    wanted: &Value,
    path: &str,
    found: &mut Vec<String>,
) {
    for (step, mine) in fields.iter().filter(|(step, _)| *step != ".") {
        let (Some(mine), Some(theirs)) = (mine.as_object(), inner(others, step)) else { continue };
        let (before, after) = (child(live, step), child(wanted, step));
        let path = format!("{path}{}", shown(step));
        if mine.is_empty() || theirs.is_empty() {
            if before != after {
                found.push(path);
            }
        } else if let (Some(before), Some(after)) = (before, after) {
            clashes(mine, theirs, before, after, &path, found);
        }
    }
}

fn shown(step: &str) -> String {
    match step.split_at_checked(2) {
        Some(("f:", name)) => format!(".{name}"),
        Some(("k:", text)) => {
            let keys: FieldSet = serde_json::from_str(text).unwrap_or_default();
            let parts: Vec<String> =
                keys.iter().map(|(key, value)| format!("{key}={value}")).collect();
            format!("[{}]", parts.join(","))
        }
        Some((_, text)) => format!("[={text}]"),
        None => String::new(),
    }
}

/// Removes fields from the object that are in `fields` but in none of the `others`.
pub(super) fn prune(object: &mut Value, fields: &FieldSet, others: &[&FieldSet]) {
    for (step, mine) in fields.iter().filter(|(step, _)| *step != ".") {
        let kept: Vec<&FieldSet> = others.iter().filter_map(|other| inner(other, step)).collect();
        if kept.iter().any(|other| other.is_empty()) {
            continue;
        }
        let Some(mine) = mine.as_object() else { continue };
        let mut goes = mine.is_empty() || mine.contains_key(".");
        if !(goes && kept.is_empty())
            && let Some(found) = child_mut(object, step)
        {
            prune(found, mine, &kept);
            goes = found.as_object().is_some_and(Map::is_empty)
                || found.as_array().is_some_and(Vec::is_empty);
        }
        if goes && kept.is_empty() {
            match object {
                Value::Object(map) => drop(map.shift_remove(step.trim_start_matches("f:"))),
                Value::Array(list) => list.retain(|item| !is_selected(item, step)),
                _ => {}
            }
        }
    }
}

fn child_mut<'v>(value: &'v mut Value, step: &str) -> Option<&'v mut Value> {
    match step.split_at_checked(2)? {
        ("f:", name) => value.get_mut(name),
        _ => value.as_array_mut()?.iter_mut().find(|item| is_selected(item, step)),
    }
}
