//! Strategic merge patches: merge patches in which some lists are merged by key.

use serde_json::{Map, Value, json};

use super::merge_strategy::{self, MergeStrategy};

pub(super) fn apply(target: &mut Value, patch: &Value) {
    merge(target, patch, "");
}

fn merge(target: &mut Value, patch: &Value, parent: &str) {
    let Some(patch) = patch.as_object() else {
        *target = patch.clone();
        return;
    };
    if patch.get("$patch").is_some_and(|how| how == "replace") || !target.is_object() {
        *target = json!({});
    }
    let Some(map) = target.as_object_mut() else { return };
    if let Some(kept) = patch.get("$retainKeys").and_then(Value::as_array) {
        map.retain(|key, _| kept.iter().any(|name| name == key));
    }
    for (key, value) in patch.iter().filter(|(key, _)| !key.starts_with('$')) {
        let is_deletion = value.get("$patch").is_some_and(|how| how == "delete");
        if value.is_null() || is_deletion {
            map.shift_remove(key);
            continue;
        }
        let slot = map.entry(key.clone()).or_insert(Value::Null);
        match (value, merge_strategy::of(parent, key)) {
            (Value::Array(items), MergeStrategy::Keyed(keys)) => {
                merge_list(slot, items, keys[0], key);
            }
            (Value::Array(items), MergeStrategy::Set) => merge_set(slot, items),
            _ => merge(slot, value, key),
        }
    }
    directives(map, patch, parent);
}

fn merge_list(target: &mut Value, items: &[Value], key: &str, field: &str) {
    let replaces = |item: &Value| item.get("$patch").is_some_and(|how| how == "replace");
    if items.iter().any(replaces) || !target.is_array() {
        *target = json!([]);
    }
    let Some(list) = target.as_array_mut() else { return };
    for item in items.iter().filter(|item| !replaces(item)) {
        let is_same = |other: &Value| other.get(key) == item.get(key);
        if item.get("$patch").is_some_and(|how| how == "delete") {
            list.retain(|other| !is_same(other));
            continue;
        }
        if let Some(old) = list.iter_mut().find(|other| is_same(other)) {
            merge(old, item, field);
        } else {
            let mut new = json!({});
            merge(&mut new, item, field);
            list.push(new);
        }
    }
}

fn merge_set(target: &mut Value, items: &[Value]) {
    if !target.is_array() {
        *target = json!([]);
    }
    let Some(list) = target.as_array_mut() else { return };
    for item in items {
        if !list.contains(item) {
            list.push(item.clone());
        }
    }
}

/// Applies the directives `$deleteFromPrimitiveList/x` and `$setElementOrder/x`.
fn directives(map: &mut Map<String, Value>, patch: &Map<String, Value>, parent: &str) {
    for (directive, value) in patch.iter().filter(|(key, _)| key.starts_with('$')) {
        let Some((name, field)) = directive.split_once('/') else { continue };
        let (Some(list), Some(items)) =
            (map.get_mut(field).and_then(Value::as_array_mut), value.as_array())
        else {
            continue;
        };
        match name {
            "$deleteFromPrimitiveList" => list.retain(|item| !items.contains(item)),
            "$setElementOrder" => {
                let key = match merge_strategy::of(parent, field) {
                    MergeStrategy::Keyed(keys) => keys[0],
                    _ => "",
                };
                let place = |item: &Value| {
                    let is_same = |other: &Value| {
                        if key.is_empty() { other == item } else { other.get(key) == item.get(key) }
                    };
                    items.iter().position(is_same).unwrap_or(usize::MAX)
                };
                list.sort_by_key(place);
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strategic_patch_merges_lists_by_key() {
        let mut pod = json!({
            "metadata": {"finalizers": ["a"], "labels": {"x": "1", "y": "2"}},
            "spec": {
                "containers": [{"name": "a", "image": "i:1", "args": ["1"]}, {"name": "b"}],
                "tolerations": [{"key": "old"}],
            },
        });
        let patch = json!({
            "metadata": {"finalizers": ["b"], "labels": {"x": null}},
            "spec": {
                "$setElementOrder/containers": [{"name": "c"}, {"name": "a"}],
                "containers": [
                    {"name": "a", "image": "i:2", "args": ["2"]},
                    {"name": "b", "$patch": "delete"},
                    {"name": "c"},
                ],
                "tolerations": [{"key": "new"}],
            },
        });
        apply(&mut pod, &patch);
        let wanted = json!({
            "metadata": {"finalizers": ["a", "b"], "labels": {"y": "2"}},
            "spec": {
                "containers": [{"name": "c"}, {"name": "a", "image": "i:2", "args": ["2"]}],
                "tolerations": [{"key": "new"}],
            },
        });
        assert_eq!(pod, wanted);
        apply(&mut pod, &json!({"metadata": {"$deleteFromPrimitiveList/finalizers": ["a"]}}));
        assert_eq!(pod["metadata"]["finalizers"], json!(["b"]));
        apply(&mut pod, &json!({"spec": {"$patch": "replace", "nodeName": "n"}}));
        assert_eq!(pod["spec"], json!({"nodeName": "n"}));
    }
}
