//! JSON merge patches (RFC 7386).

use serde_json::{Value, json};

pub(super) fn apply(target: &mut Value, patch: &Value) {
    let Some(patch) = patch.as_object() else {
        *target = patch.clone();
        return;
    };
    if !target.is_object() {
        *target = json!({});
    }
    let Some(map) = target.as_object_mut() else { return };
    for (key, value) in patch {
        if value.is_null() {
            map.shift_remove(key);
        } else {
            apply(map.entry(key.clone()).or_insert(Value::Null), value);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn merge_patch_removes_null_fields_and_merges_the_rest() {
        let mut target = json!({"a": {"b": 1, "c": 2}, "l": [1, 2]});
        apply(&mut target, &json!({"a": {"b": null, "d": 3}, "l": [3], "n": {"x": null, "y": 1}}));
        assert_eq!(target, json!({"a": {"c": 2, "d": 3}, "l": [3], "n": {"y": 1}}));
    }
}
