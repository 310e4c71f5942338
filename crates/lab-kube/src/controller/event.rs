//! Events that controllers record about objects.

use serde_json::{Value, json};

use crate::failure::Failure;
use crate::object::{self, name, namespace, number, text};
use crate::store::State;

const ID: &str = "events";

/// Records an event. If the object already has an event with this reason, that event is updated. It stays unchanged if the
/// message differs only in the generated pod name, which is different in each attempt.
pub(super) fn record(
    state: &mut State,
    about: &Value,
    (component, kind): (&str, &str),
    reason: &str,
    message: &str,
) {
    let space = namespace(about);
    let is_open = |space: &str| {
        state.get("namespaces", "", space).is_some_and(|space| !object::is_being_deleted(space))
    };
    if !is_open(space) {
        return;
    }
    let is_same = |event: &&std::sync::Arc<Value>| {
        text(event, "/involvedObject/uid") == object::uid(about) && text(event, "/reason") == reason
    };
    let known = state.in_namespace(ID, space).find(is_same).cloned();
    let now = state.timestamp();
    if let Some(known) = known {
        if without_pod_name(text(&known, "/message")) != without_pod_name(message) {
            state.change(ID, space, name(&known), |event| {
                event["message"] = message.into();
                event["lastTimestamp"] = now.as_str().into();
                event["count"] = (number(event, "/count").unwrap_or(1) + 1).into();
            });
        }
        return;
    }
    let suffix: String =
        object::uid(about).chars().filter(char::is_ascii_hexdigit).take(16).collect();
    let event = json!({
        "metadata": {"name": format!("{}.{suffix}.{}", name(about), reason.to_lowercase()), "namespace": space},
        "involvedObject": {
            "kind": about["kind"],
            "namespace": space,
            "name": name(about),
            "uid": object::uid(about),
            "apiVersion": about["apiVersion"],
            "resourceVersion": about["metadata"]["resourceVersion"],
        },
        "reason": reason,
        "message": message,
        "source": {"component": component},
        "firstTimestamp": now,
        "lastTimestamp": now,
        "count": 1,
        "type": kind,
        "reportingComponent": component,
        "reportingInstance": "",
    });
    // Creation can fail because the name of the event is too long. No other object depends on the event.
    state.create_inside(ID, event).ok();
}

fn without_pod_name(message: &str) -> &str {
    message.split_once("is forbidden: ").map_or(message, |(_, cause)| cause)
}

/// Records that the API server rejected a pod.
pub(super) fn record_rejection(
    state: &mut State,
    owner: &Value,
    component: &str,
    failure: &Failure,
) {
    let message = match text(owner, "/kind") {
        "StatefulSet" => {
            let pod = failure.details.get("name").and_then(Value::as_str).unwrap_or_default();
            format!("create Pod {pod} in StatefulSet {} failed error: {failure}", name(owner))
        }
        _ => format!("Error creating: {failure}"),
    };
    record(state, owner, (component, "Warning"), "FailedCreate", &message);
}
