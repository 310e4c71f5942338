//! Difference between two objects, as a merge patch.

use serde_json::{Map, Value};

/// Merge patch that turns `before` into `after`; `None` if both are equal.
pub(super) fn merge_patch(before: &Value, after: &Value) -> Option<Value> {
    if before == after {
        return None;
    }
    let (Some(old), Some(new)) = (before.as_object(), after.as_object()) else {
        return Some(after.clone());
    };
    let gone = old.keys().filter(|key| !new.contains_key(*key));
    let mut patch: Map<String, Value> = gone.map(|key| (key.clone(), Value::Null)).collect();
    for (key, value) in new {
        let changed = merge_patch(old.get(key).unwrap_or(&Value::Null), value);
        patch.extend(changed.map(|changed| (key.clone(), changed)));
    }
    Some(Value::Object(patch))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::merge_patch;

    #[test]
    fn the_patch_contains_only_changes() {
        let before = json!({"spec": {"replicas": 1, "paused": true}, "labels": {"a": "b"}});
        let after = json!({"spec": {"replicas": 2}, "labels": {"a": "b"}, "more": [1]});
        let wanted = json!({"spec": {"replicas": 2, "paused": null}, "more": [1]});
        assert_eq!(merge_patch(&before, &after), Some(wanted));
        assert_eq!(merge_patch(&after, &after.clone()), None);
    }
}
