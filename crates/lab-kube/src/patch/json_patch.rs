//! JSON patches (RFC 6902).

use serde_json::Value;

/// Applies a JSON patch; `None` if it cannot be applied to the target.
pub(super) fn apply(target: &mut Value, operations: &[Value]) -> Option<()> {
    operations.iter().try_for_each(|operation| one(target, operation))
}

fn one(target: &mut Value, operation: &Value) -> Option<()> {
    let part = |key: &str| operation[key].as_str();
    // An operation without `value` has the value null.
    let value = || operation.get("value").cloned().unwrap_or_default();
    let path = part("path")?;
    match part("op")? {
        "add" => add(target, path, value()),
        "remove" => remove(target, path).map(drop),
        // `replace` may also name a key that the mapping does not have.
        "replace" => match target.pointer_mut(path) {
            Some(slot) => {
                *slot = value();
                Some(())
            }
            None => set(target, path, value()),
        },
        "move" => {
            let moved = remove(target, part("from")?)?;
            add(target, path, moved)
        }
        "copy" => {
            let from = part("from")?;
            let copy = match target.pointer(from) {
                Some(found) => found.clone(),
                // `move` and `copy` of a key that the mapping does not have result in null.
                None => parent(target, from)?.0.is_object().then_some(Value::Null)?,
            };
            add(target, path, copy)
        }
        "test" if target.pointer(path).unwrap_or(&Value::Null) == &value() => Some(()),
        _ => None,
    }
}

/// Mapping or list that contains the last key of a path, and that key.
fn parent<'t>(target: &'t mut Value, path: &str) -> Option<(&'t mut Value, String)> {
    let (parent, last) = path.rsplit_once('/')?;
    Some((target.pointer_mut(parent)?, last.replace("~1", "/").replace("~0", "~")))
}

fn set(target: &mut Value, path: &str, value: Value) -> Option<()> {
    let (parent, last) = parent(target, path)?;
    parent.as_object_mut()?.insert(last, value);
    Some(())
}

fn add(target: &mut Value, path: &str, value: Value) -> Option<()> {
    if path.is_empty() {
        *target = value;
        return Some(());
    }
    let (parent, last) = parent(target, path)?;
    match parent {
        Value::Object(map) => drop(map.insert(last, value)),
        Value::Array(list) if last == "-" => list.push(value),
        Value::Array(list) => {
            let at = last.parse().ok().filter(|at: &usize| *at <= list.len())?;
            list.insert(at, value);
        }
        _ => return None,
    }
    Some(())
}

fn remove(target: &mut Value, path: &str) -> Option<Value> {
    let (parent, last) = parent(target, path)?;
    match parent {
        Value::Object(map) => map.shift_remove(&last),
        Value::Array(list) => {
            let at = last.parse().ok().filter(|at: &usize| *at < list.len())?;
            Some(list.remove(at))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn json_patch_operations_apply_in_order_or_fail() {
        let mut target = json!({"a": [1, 2], "m": {"x/y": 1}});
        let patch = json!([
            {"op": "test", "path": "/a/0", "value": 1},
            {"op": "add", "path": "/a/-", "value": 3},
            {"op": "remove", "path": "/a/0"},
            {"op": "replace", "path": "/m/x~1y", "value": 2},
            {"op": "move", "from": "/m", "path": "/n"},
            {"op": "copy", "from": "/a", "path": "/b"},
        ]);
        apply(&mut target, patch.as_array().unwrap()).unwrap();
        assert_eq!(target, json!({"a": [2, 3], "n": {"x/y": 2}, "b": [2, 3]}));
        for bad in [
            json!([{"op": "remove", "path": "/none"}]),
            json!([{"op": "test", "path": "/a", "value": 1}]),
            json!([{"op": "add", "path": "/a/9", "value": 1}]),
            json!([{"op": "replace", "path": "/a/9", "value": 1}]),
            json!([{}]),
        ] {
            assert_eq!(apply(&mut target, bad.as_array().unwrap()), None, "{bad}");
        }
    }
}
