//! JSON patches (RFC 6902).

use serde_json::Value;

pub(super) fn apply(target: &mut Value, patch: &Value) -> Result<(), String> {
    let operations = patch.as_array().ok_or("a JSON patch is a list of operations")?;
    operations.iter().try_for_each(|operation| one(target, operation))
}

fn one(target: &mut Value, operation: &Value) -> Result<(), String> {
    let part = |key: &str| {
        operation[key].as_str().ok_or_else(|| format!("an operation lacks its \"{key}\""))
    };
    let value = || operation.get("value").cloned().ok_or("an operation lacks its \"value\"");
    let path = part("path")?;
    match part("op")? {
        "add" => add(target, path, value()?),
        "remove" => remove(target, path).map(drop),
        "replace" => {
            let slot = target.pointer_mut(path).ok_or_else(|| missing("replace", path))?;
            *slot = value()?;
            Ok(())
        }
        "move" => {
            let moved = remove(target, part("from")?)?;
            add(target, path, moved)
        }
        "copy" => {
            let from = part("from")?;
            let copy = target.pointer(from).cloned().ok_or_else(|| missing("copy", from))?;
            add(target, path, copy)
        }
        "test" if target.pointer(path) == Some(&value()?) => Ok(()),
        "test" => Err(format!("testing value {path} failed: test failed")),
        other => Err(format!("unexpected kind: {other}")),
    }
}

fn missing(operation: &str, path: &str) -> String {
    format!("{operation} operation does not apply: doc is missing path: {path}: missing value")
}

/// The place that holds the last step of a path, and that step.
fn parent<'t>(target: &'t mut Value, path: &str) -> Option<(&'t mut Value, String)> {
    let (parent, last) = path.rsplit_once('/')?;
    Some((target.pointer_mut(parent)?, last.replace("~1", "/").replace("~0", "~")))
}

fn add(target: &mut Value, path: &str, value: Value) -> Result<(), String> {
    if path.is_empty() {
        *target = value;
        return Ok(());
    }
    let absent = || missing("add", path);
    let (parent, last) = parent(target, path).ok_or_else(absent)?;
    match parent {
        Value::Object(map) => drop(map.insert(last, value)),
        Value::Array(list) if last == "-" => list.push(value),
        Value::Array(list) => {
            let at: usize = last.parse().map_err(|_| absent())?;
            if at > list.len() {
                return Err(absent());
            }
            list.insert(at, value);
        }
        _ => return Err(absent()),
    }
    Ok(())
}

fn remove(target: &mut Value, path: &str) -> Result<Value, String> {
    let absent = || missing("remove", path);
    let (parent, last) = parent(target, path).ok_or_else(absent)?;
    match parent {
        Value::Object(map) => map.shift_remove(&last).ok_or_else(absent),
        Value::Array(list) => {
            let at: usize = last.parse().map_err(|_| absent())?;
            if at < list.len() { Ok(list.remove(at)) } else { Err(absent()) }
        }
        _ => Err(absent()),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn operations_apply_in_order_or_fail() {
        let mut target = json!({"a": [1, 2], "m": {"x/y": 1}});
        let patch = json!([
            {"op": "test", "path": "/a/0", "value": 1},
            {"op": "add", "path": "/a/-", "value": 3},
            {"op": "remove", "path": "/a/0"},
            {"op": "replace", "path": "/m/x~1y", "value": 2},
            {"op": "move", "from": "/m", "path": "/n"},
            {"op": "copy", "from": "/a", "path": "/b"},
        ]);
        apply(&mut target, &patch).unwrap();
        assert_eq!(target, json!({"a": [2, 3], "n": {"x/y": 2}, "b": [2, 3]}));
        for bad in [
            json!([{"op": "remove", "path": "/none"}]),
            json!([{"op": "test", "path": "/a", "value": 1}]),
            json!([{"op": "add", "path": "/a/9", "value": 1}]),
            json!({}),
        ] {
            assert!(apply(&mut target, &bad).is_err(), "{bad}");
        }
    }
}
