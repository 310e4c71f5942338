//! DaemonSet controller: runs one pod on every node that the pod template allows.

use std::sync::Arc;

use serde_json::{Value, json};

use super::{event, pod};
use crate::object::{self, label, list, name, namespace, text};
use crate::store::State;

const ID: &str = "daemonsets.apps";
const HASH: &str = "controller-revision-hash";

pub(super) fn pass(state: &mut State) {
    let nodes = state.all("nodes");
    for set in state.all(ID) {
        reconcile(state, &set, &nodes);
    }
}

/// Tolerations of the pods of a DaemonSet: those of the template, and those that the DaemonSet controller adds.
fn tolerations(spec: &Value) -> Vec<Value> {
    let tolerate = |key: &str, effect: &str| json!({"key": format!("node.kubernetes.io/{key}"), "operator": "Exists", "effect": effect});
    let mut all = list(spec, "/tolerations").to_vec();
    all.extend([
        tolerate("not-ready", "NoExecute"),
        tolerate("unreachable", "NoExecute"),
        tolerate("disk-pressure", "NoSchedule"),
        tolerate("memory-pressure", "NoSchedule"),
        tolerate("pid-pressure", "NoSchedule"),
        tolerate("unschedulable", "NoSchedule"),
    ]);
    if object::flag(spec, "/hostNetwork") {
        all.push(tolerate("network-unavailable", "NoSchedule"));
    }
    all
}

fn reconcile(state: &mut State, set: &Value, nodes: &[Arc<Value>]) {
    let hash = pod::template_hash(&set["spec"]["template"]);
    let spec = &set["spec"]["template"]["spec"];
    let tolerations = tolerations(spec);
    let mut pods = pod::owned(state, set);
    let is_wanted = |node: &&Arc<Value>| {
        pod::matches_node(spec, node) && !pod::has_untolerated_taint(node, &tolerations)
    };
    let desired: Vec<&str> = nodes.iter().filter(is_wanted).map(|node| name(node)).collect();
    if !object::is_being_deleted(set) {
        let is_there = |pods: &[Arc<Value>], node: &str| {
            pods.iter().any(|pod| text(pod, "/spec/nodeName") == node)
        };
        for node in &desired {
            if !is_there(&pods, node) {
                let metadata = json!({
                    "generateName": format!("{}-", name(set)),
                    "labels": {HASH: hash, "pod-template-generation": generation(set)},
                });
                let mut new = pod::from_template(set, &metadata);
                new["spec"]["nodeName"] = (*node).into();
                new["spec"]["tolerations"] = json!(tolerations);
                match state.create_inside("pods", new) {
                    Ok(made) => pods.push(made),
                    Err(failure) => {
                        event::record_rejection(state, set, "daemonset-controller", &failure);
                    }
                }
            }
        }
        replace_old(state, set, &pods, &hash);
        for ended in pods.iter().filter(|pod| pod::has_ended(pod) && !object::is_being_deleted(pod))
        {
            state.delete_inside("pods", namespace(ended), name(ended)).ok();
        }
    }
    pods.retain(|pod| {
        !object::is_being_deleted(pod) && desired.contains(&text(pod, "/spec/nodeName"))
    });
    let ready = pods.iter().filter(|pod| pod::is_ready(pod)).count();
    let updated = pods.iter().filter(|pod| label(pod, HASH) == Some(hash.as_str())).count();
    state.change(ID, namespace(set), name(set), |set| {
        let observed = set["metadata"]["generation"].clone();
        set["status"] = json!({
            "desiredNumberScheduled": desired.len(),
            "currentNumberScheduled": pods.len(),
            "numberMisscheduled": 0,
            "numberReady": ready,
            "numberAvailable": ready,
            "updatedNumberScheduled": updated,
            "observedGeneration": observed,
        });
        if ready < desired.len() {
            set["status"]["numberUnavailable"] = (desired.len() - ready).into();
        }
    });
}

fn generation(set: &Value) -> String {
    object::number(set, "/metadata/generation").unwrap_or(1).to_string()
}

/// Deletes pods of an older template, at most `maxUnavailable` at a time.
fn replace_old(state: &mut State, set: &Value, pods: &[Arc<Value>], hash: &str) {
    let strategy = &set["spec"]["updateStrategy"];
    if strategy["type"] == "OnDelete" {
        return;
    }
    let limit = pod::share(&strategy["rollingUpdate"]["maxUnavailable"], pods.len() as u64, true);
    let limit = usize::try_from(limit).unwrap_or(usize::MAX).max(1);
    let missing =
        pods.iter().filter(|pod| !pod::is_ready(pod) || object::is_being_deleted(pod)).count();
    let is_old =
        |pod: &&Arc<Value>| label(pod, HASH) != Some(hash) && !object::is_being_deleted(pod);
    let (ready, not_ready): (Vec<_>, Vec<_>) =
        pods.iter().filter(is_old).partition(|pod| pod::is_ready(pod));
    let some = ready.into_iter().take(limit.saturating_sub(missing));
    for old in not_ready.into_iter().chain(some) {
        state.delete_inside("pods", namespace(old), name(old)).ok();
    }
}
