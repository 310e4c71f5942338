//! StatefulSet controller: creates and replaces pods with stable names, one after the other.

use serde_json::{Value, json};

use super::{event, pod};
use crate::object::{self, label, name, namespace, number};
use crate::store::State;

const ID: &str = "statefulsets.apps";
const HASH: &str = "controller-revision-hash";

pub(super) fn pass(state: &mut State) {
    for set in state.all(ID) {
        if !object::is_being_deleted(&set) {
            step(state, &set);
        }
        write_status(state, &set);
    }
}

fn revision(set: &Value) -> String {
    format!("{}-{}", name(set), pod::template_hash(&set["spec"]["template"]))
}

/// Creates, deletes or replaces one pod, if a change is needed.
fn step(state: &mut State, set: &Value) {
    let desired = number(set, "/spec/replicas").unwrap_or(1);
    let is_parallel = set["spec"]["podManagementPolicy"] == "Parallel";
    let revision = revision(set);
    let prefix = format!("{}-", name(set));
    for ordinal in 0..desired {
        let pod_name = format!("{prefix}{ordinal}");
        let existing = state.get("pods", namespace(set), &pod_name).cloned();
        if existing.is_none() {
            let metadata = json!({
                "name": pod_name,
                "labels": {
                    HASH: revision,
                    "statefulset.kubernetes.io/pod-name": pod_name,
                    "apps.kubernetes.io/pod-index": ordinal.to_string(),
                },
            });
            let mut new = pod::from_template(set, &metadata);
            new["spec"]["hostname"] = pod_name.as_str().into();
            if let Err(failure) = state.create_inside("pods", new) {
                event::record_rejection(state, set, "statefulset-controller", &failure);
            }
        }
        if !is_parallel && !existing.is_some_and(|pod| pod::is_ready(&pod) && pod::is_active(&pod))
        {
            return;
        }
    }
    let mut pods = pod::owned(state, set);
    let ordinal = |pod: &Value| -> u64 {
        name(pod).strip_prefix(&prefix).and_then(|text| text.parse().ok()).unwrap_or(u64::MAX)
    };
    pods.sort_by_key(|pod| std::cmp::Reverse(ordinal(pod)));
    if pods.iter().any(|pod| object::is_being_deleted(pod)) {
        return;
    }
    let extra = pods.iter().find(|pod| ordinal(pod) >= desired);
    let outdated = pods.iter().find(|pod| {
        label(pod, HASH) != Some(&revision) && set["spec"]["updateStrategy"]["type"] != "OnDelete"
    });
    if let Some(next) = extra.or(outdated) {
        state.delete_inside("pods", namespace(next), name(next)).ok();
    }
}

fn write_status(state: &mut State, set: &Value) {
    let revision = revision(set);
    let mut pods = pod::owned(state, set);
    pods.retain(|pod| pod::is_active(pod));
    let ready = pods.iter().filter(|pod| pod::is_ready(pod)).count();
    let updated = pods.iter().filter(|pod| label(pod, HASH) == Some(&revision)).count();
    state.change(ID, namespace(set), name(set), |set| {
        let observed = set["metadata"]["generation"].clone();
        let before = object::text(set, "/status/currentRevision").to_owned();
        let is_whole = updated == pods.len() || before.is_empty();
        set["status"] = json!({
            "replicas": pods.len(),
            "readyReplicas": ready,
            "availableReplicas": ready,
            "currentReplicas": updated,
            "updatedReplicas": updated,
            "currentRevision": if is_whole { &revision } else { &before },
            "updateRevision": revision,
            "observedGeneration": observed,
            "collisionCount": 0,
        });
    });
}
