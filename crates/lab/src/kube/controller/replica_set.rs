//! ReplicaSets: as many pods as are wanted.

use std::sync::Arc;

use serde_json::{Value, json};

use super::pod;
use crate::kube::object::{self, name, namespace, number};
use crate::kube::store::State;

const ID: &str = "replicasets.apps";

pub(super) fn pass(state: &mut State) {
    for set in state.all(ID) {
        reconcile(state, &set);
    }
}

fn reconcile(state: &mut State, set: &Value) {
    let mut pods = pod::owned(state, set);
    pods.retain(|pod| pod::is_active(pod));
    let wanted = usize::try_from(number(set, "/spec/replicas").unwrap_or(1)).unwrap_or(usize::MAX);
    if !object::is_going(set) {
        let prefix = format!("{}-", name(set));
        for _ in pods.len()..wanted {
            let new = pod::from_template(set, &json!({"generateName": prefix}));
            // A namespace on its way out takes no pods; the set goes with it.
            pods.extend(state.create_inside("pods", new));
        }
        // Those that are not ready go first, then the newest.
        pods.sort_by_key(|pod| {
            (!pod::is_ready(pod), object::text(pod, "/metadata/creationTimestamp").to_owned())
        });
        for surplus in pods.split_off(wanted.min(pods.len())) {
            state.delete_inside("pods", namespace(&surplus), name(&surplus)).ok();
        }
    }
    write_status(state, set, &pods);
}

fn write_status(state: &mut State, set: &Value, pods: &[Arc<Value>]) {
    let ready = pods.iter().filter(|pod| pod::is_ready(pod)).count();
    state.change(ID, namespace(set), name(set), |set| {
        let observed = set["metadata"]["generation"].clone();
        set["status"] = json!({
            "replicas": pods.len(),
            "fullyLabeledReplicas": pods.len(),
            "readyReplicas": ready,
            "availableReplicas": ready,
            "observedGeneration": observed,
        });
    });
}
