//! ReplicaSet controller: keeps the desired number of pods.

use std::sync::Arc;

use serde_json::{Value, json};

use super::{event, pod};
use crate::failure::Failure;
use crate::object::{self, name, namespace, number};
use crate::store::State;

const ID: &str = "replicasets.apps";

pub(super) fn pass(state: &mut State) {
    for set in state.all(ID) {
        reconcile(state, &set);
    }
}

fn reconcile(state: &mut State, set: &Value) {
    let mut pods = pod::owned(state, set);
    pods.retain(|pod| pod::is_active(pod));
    let desired = usize::try_from(number(set, "/spec/replicas").unwrap_or(1)).unwrap_or(usize::MAX);
    let mut failure = None;
    if !object::is_being_deleted(set) {
        let prefix = format!("{}-", name(set));
        for _ in pods.len()..desired {
            let new = pod::from_template(set, &json!({"generateName": prefix}));
            match state.create_inside("pods", new) {
                Ok(made) => pods.push(made),
                Err(rejection) => {
                    event::record_rejection(state, set, "replicaset-controller", &rejection);
                    failure = Some(rejection);
                    // The API server would reject the remaining pods for the same reason.
                    break;
                }
            }
        }
        // Extra pods are deleted from the end of this order: pods that are not ready first, then the newest.
        pods.sort_by_key(|pod| {
            (!pod::is_ready(pod), object::text(pod, "/metadata/creationTimestamp").to_owned())
        });
        for extra in pods.split_off(desired.min(pods.len())) {
            state.delete_inside("pods", namespace(&extra), name(&extra)).ok();
        }
    }
    write_status(state, set, &pods, failure.as_ref());
}

fn write_status(state: &mut State, set: &Value, pods: &[Arc<Value>], failure: Option<&Failure>) {
    let now = state.timestamp();
    let ready = pods.iter().filter(|pod| pod::is_ready(pod)).count();
    state.change(ID, namespace(set), name(set), |set| {
        let observed = set["metadata"]["generation"].clone();
        let known = object::condition(set, "ReplicaFailure").cloned();
        set["status"] = json!({
            "replicas": pods.len(),
            "fullyLabeledReplicas": pods.len(),
            "readyReplicas": ready,
            "availableReplicas": ready,
            "observedGeneration": observed,
        });
        if let Some(failure) = failure {
            // The present condition stays, because the message contains a generated pod name that differs in each attempt.
            if let Some(known) = known {
                set["status"]["conditions"] = json!([known]);
            } else {
                let (kind, reason) = ("ReplicaFailure", "FailedCreate");
                object::set_condition(set, &now, kind, "True", reason, &failure.message);
            }
        }
    });
}
