//! Object that exists in the store and on the API server, in the state of the last synchronization.

use std::sync::Arc;

use serde_json::{Map, Value, json};
use talmox_lab_kube::object::{text, uid};

use super::merge_patch::merge_patch;

#[derive(Clone, Debug)]
pub(super) struct SyncedObject {
    uid: String,
    /// Resource version of the object on the API server.
    remote: String,
    local: Arc<Value>,
}

impl SyncedObject {
    pub(super) fn new(remote: &Value, local: Arc<Value>) -> Self {
        Self { uid: uid(remote).to_owned(), remote: revision(remote).to_owned(), local }
    }

    /// Whether this is the same object. Another object with the same name has a different uid.
    pub(super) fn is_same_object(&self, remote: &Value) -> bool {
        self.uid == uid(remote)
    }

    /// Whether the object on the API server is unchanged since the last synchronization.
    pub(super) fn is_unchanged(&self, remote: &Value) -> bool {
        self.remote == revision(remote)
    }

    /// Returns this record with the local object, whose changes were written to the API server. Changes of the API server are
    /// not applied yet.
    pub(super) fn with(&self, local: Arc<Value>) -> Self {
        Self { local, ..self.clone() }
    }

    /// Merge patch with the fields that changed in the store since the last synchronization, except the status; `None` if
    /// nothing changed.
    pub(super) fn spec_patch(&self, local: &Value) -> Option<Value> {
        merge_patch(&without_system_fields(&self.local), &without_system_fields(local))
    }

    /// Merge patch with the numbers of a disruption budget that differ on the API server; `None` if nothing differs. At an
    /// eviction the API server lowers the number of allowed disruptions itself. The controllers must see that eviction before they
    /// write the numbers again, so a budget that changed since the last synchronization is not written.
    pub(super) fn budget_patch(&self, remote: &Value, local: &Value) -> Option<Value> {
        if !self.is_unchanged(remote) {
            return None;
        }
        let numbers = |object: &Value| {
            let keys = [
                "expectedPods",
                "currentHealthy",
                "desiredHealthy",
                "disruptionsAllowed",
                "observedGeneration",
            ];
            let fields = keys.map(|key| (key.to_owned(), object["status"][key].clone()));
            Value::Object(fields.into_iter().collect())
        };
        merge_patch(&numbers(remote), &numbers(local))
    }

    /// Merge patch with the status fields that changed in the store since the last synchronization; `None` if nothing changed.
    pub(super) fn status_patch(known: Option<&Self>, local: &Value) -> Option<Value> {
        let before = known.map_or(&Value::Null, |known| &known.local["status"]);
        let mut patch = merge_patch(before, &local["status"])?;
        if let Some(fields) = patch.as_object_mut() {
            // The API server computes this field itself.
            fields.shift_remove("qosClass");
        }
        Some(patch)
    }
}

fn revision(object: &Value) -> &str {
    text(object, "/metadata/resourceVersion")
}

/// Object without metadata, status and the other fields that the system sets.
fn without_system_fields(object: &Value) -> Value {
    let all = object.as_object().into_iter().flatten();
    let wanted = all
        .filter(|(key, _)| !matches!(key.as_str(), "apiVersion" | "kind" | "metadata" | "status"));
    let mut kept: Map<String, Value> =
        wanted.map(|(key, value)| (key.clone(), value.clone())).collect();
    let metadata = &object["metadata"];
    kept.insert(
        "metadata".to_owned(),
        json!({"labels": metadata["labels"], "annotations": metadata["annotations"]}),
    );
    Value::Object(kept)
}
