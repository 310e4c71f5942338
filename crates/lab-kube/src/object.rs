//! Access to fields of objects, and small changes to them.

use serde_json::{Map, Value, json};

/// String at a JSON pointer; empty if there is no string.
pub fn text<'o>(object: &'o Value, pointer: &str) -> &'o str {
    object.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

/// Type name of a value, as in the error messages of Go's JSON decoder.
pub(crate) fn type_name(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "bool",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

pub(crate) fn number(object: &Value, pointer: &str) -> Option<u64> {
    object.pointer(pointer).and_then(Value::as_u64)
}

pub(crate) fn flag(object: &Value, pointer: &str) -> bool {
    object.pointer(pointer).and_then(Value::as_bool).unwrap_or_default()
}

/// List at a JSON pointer; empty if there is no list.
pub fn list<'o>(object: &'o Value, pointer: &str) -> &'o [Value] {
    object.pointer(pointer).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

pub fn name(object: &Value) -> &str {
    text(object, "/metadata/name")
}

pub fn namespace(object: &Value) -> &str {
    text(object, "/metadata/namespace")
}

pub fn uid(object: &Value) -> &str {
    text(object, "/metadata/uid")
}

pub(crate) fn labels(object: &Value) -> Option<&Map<String, Value>> {
    object.pointer("/metadata/labels").and_then(Value::as_object)
}

pub fn label<'o>(object: &'o Value, key: &str) -> Option<&'o str> {
    labels(object)?.get(key)?.as_str()
}

pub fn annotation<'o>(object: &'o Value, key: &str) -> Option<&'o str> {
    object.pointer("/metadata/annotations")?.get(key)?.as_str()
}

pub fn is_being_deleted(object: &Value) -> bool {
    object.pointer("/metadata/deletionTimestamp").is_some()
}

pub(crate) fn has_finalizers(object: &Value) -> bool {
    !list(object, "/metadata/finalizers").is_empty()
}

/// Owner reference of an object that has `controller: true`.
pub(crate) fn controller(object: &Value) -> Option<&Value> {
    list(object, "/metadata/ownerReferences").iter().find(|owner| flag(owner, "/controller"))
}

pub(crate) fn is_controlled_by(object: &Value, owner: &Value) -> bool {
    controller(object).is_some_and(|reference| text(reference, "/uid") == uid(owner))
}

/// Owner reference to `owner`, for objects that `owner` creates.
pub(crate) fn reference(owner: &Value) -> Value {
    json!({
        "apiVersion": owner["apiVersion"],
        "kind": owner["kind"],
        "name": name(owner),
        "uid": uid(owner),
        "controller": true,
        "blockOwnerDeletion": true,
    })
}

/// Mapping at `key`, which is created if it does not exist.
pub fn entry<'o>(object: &'o mut Value, key: &str) -> &'o mut Map<String, Value> {
    if !object.is_object() {
        *object = json!({});
    }
    let slot = &mut object[key];
    if !slot.is_object() {
        *slot = json!({});
    }
    slot.as_object_mut().expect("invariant: it was just made one")
}

pub(crate) fn metadata(object: &mut Value) -> &mut Map<String, Value> {
    entry(object, "metadata")
}

pub(crate) fn add_finalizer(object: &mut Value, finalizer: &Value) {
    let all = metadata(object).entry("finalizers").or_insert_with(|| json!([]));
    if let Some(all) = all.as_array_mut() {
        all.push(finalizer.clone());
    }
}

pub(crate) fn remove_finalizer(object: &mut Value, finalizer: &str) {
    if let Some(all) = metadata(object).get_mut("finalizers").and_then(Value::as_array_mut) {
        all.retain(|name| name != finalizer);
        if all.is_empty() {
            metadata(object).remove("finalizers");
        }
    }
}

/// Sets a condition in `status.conditions`. `lastTransitionTime` changes only if the status of the condition changes.
pub(crate) fn set_condition(
    object: &mut Value,
    now: &str,
    kind: &str,
    status: &str,
    reason: &str,
    message: &str,
) {
    let status_map = entry(object, "status");
    let conditions = status_map.entry("conditions").or_insert_with(|| json!([]));
    let Some(conditions) = conditions.as_array_mut() else { return };
    let mut fresh = json!({"type": kind, "status": status, "lastTransitionTime": now});
    if !reason.is_empty() {
        fresh["reason"] = reason.into();
    }
    if !message.is_empty() {
        fresh["message"] = message.into();
    }
    match conditions.iter_mut().find(|condition| condition["type"] == kind) {
        None => conditions.push(fresh),
        Some(old) => {
            if old["status"] == status {
                fresh["lastTransitionTime"] = old["lastTransitionTime"].clone();
            }
            for key in ["lastHeartbeatTime", "lastUpdateTime", "observedGeneration"] {
                if let Some(kept) = old.get(key) {
                    fresh[key] = kept.clone();
                }
            }
            *old = fresh;
        }
    }
}

pub(crate) fn remove_condition(object: &mut Value, kind: &str) {
    let conditions = object.pointer_mut("/status/conditions").and_then(Value::as_array_mut);
    if let Some(conditions) = conditions {
        conditions.retain(|condition| condition["type"] != kind);
    }
}

pub fn condition<'o>(object: &'o Value, kind: &str) -> Option<&'o Value> {
    list(object, "/status/conditions").iter().find(|condition| condition["type"] == kind)
}

pub fn has_condition(object: &Value, kind: &str) -> bool {
    condition(object, kind).is_some_and(|condition| condition["status"] == "True")
}
