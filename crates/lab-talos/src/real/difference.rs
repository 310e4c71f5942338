//! What became different, as a merge patch.

use serde_json::{Map, Value};

/// The patch that makes `after` of `before`; none where they are the same.
pub(super) fn difference(before: &Value, after: &Value) -> Option<Value> {
    if before == after {
        return None;
    }
    let (Some(old), Some(new)) = (before.as_object(), after.as_object()) else {
        return Some(after.clone());
    };
    let gone = old.keys().filter(|key| !new.contains_key(*key));
    let mut patch: Map<String, Value> = gone.map(|key| (key.clone(), Value::Null)).collect();
    for (key, value) in new {
        let changed = difference(old.get(key).unwrap_or(&Value::Null), value);
        patch.extend(changed.map(|changed| (key.clone(), changed)));
    }
    Some(Value::Object(patch))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::difference;

    #[test]
    fn only_what_changed_is_in_the_patch() {
        let before = json!({"spec": {"replicas": 1, "paused": true}, "labels": {"a": "b"}});
        let after = json!({"spec": {"replicas": 2}, "labels": {"a": "b"}, "more": [1]});
        let wanted = json!({"spec": {"replicas": 2, "paused": null}, "more": [1]});
        assert_eq!(difference(&before, &after), Some(wanted));
        assert_eq!(difference(&after, &after.clone()), None);
    }
}
