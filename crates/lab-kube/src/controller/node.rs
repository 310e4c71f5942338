//! Node controller: marks nodes without heartbeats as unreachable, taints nodes that are not ready, and deletes the pods of
//! deleted nodes.

use std::time::Duration;

use serde_json::{Value, json};

use super::pod;
use crate::object::{self, annotation, flag, list, name, namespace, text};
use crate::store::State;

/// Time without a heartbeat after which a node becomes unreachable (`node-monitor-grace-period`).
const GRACE_PERIOD: Duration = Duration::from_secs(40);

const NOT_READY: &str = "node.kubernetes.io/not-ready";
const UNREACHABLE: &str = "node.kubernetes.io/unreachable";
const UNSCHEDULABLE: &str = "node.kubernetes.io/unschedulable";

/// Runs the controller once. Returns the time at which the next node becomes unreachable.
pub(super) fn pass(state: &mut State) -> Option<Duration> {
    let mut due = vec![];
    for node in state.all("nodes") {
        let since = state.machines.all.get(name(&node)).and_then(|kubelet| kubelet.stopped);
        if let Some(since) = since {
            if state.now < since + GRACE_PERIOD {
                due.push(since + GRACE_PERIOD);
            } else {
                mark_unreachable(state, &node);
            }
        }
        taint(state, name(&node));
    }
    remove_orphans(state);
    due.into_iter().min()
}

fn mark_unreachable(state: &mut State, node: &Value) {
    let now = state.timestamp();
    let lost = name(node).to_owned();
    state.change("nodes", "", &lost, |node| {
        for kind in ["MemoryPressure", "DiskPressure", "PIDPressure", "Ready"] {
            let (reason, message) = ("NodeStatusUnknown", "Kubelet stopped posting node status.");
            object::set_condition(node, &now, kind, "Unknown", reason, message);
        }
    });
    for pod in state.all("pods") {
        if text(&pod, "/spec/nodeName") == lost && pod::is_ready(&pod) {
            state.change("pods", namespace(&pod), name(&pod), |pod| {
                object::set_condition(pod, &now, "Ready", "False", "", "");
            });
        }
    }
}

fn taint(state: &mut State, node: &str) {
    let now = state.timestamp();
    state.change("nodes", "", node, |node| {
        let ready = object::condition(node, "Ready").map(|ready| text(ready, "/status"));
        let desired: &[(&str, &str)] = match ready {
            Some("True") => &[],
            Some("Unknown") => &[(UNREACHABLE, "NoSchedule"), (UNREACHABLE, "NoExecute")],
            _ => &[(NOT_READY, "NoSchedule"), (NOT_READY, "NoExecute")],
        };
        let mut desired = desired.to_vec();
        if flag(node, "/spec/unschedulable") {
            desired.push((UNSCHEDULABLE, "NoSchedule"));
        }
        let is_wanted = |taint: &Value| {
            desired.iter().any(|(key, effect)| taint["key"] == *key && taint["effect"] == *effect)
        };
        let managed = [NOT_READY, UNREACHABLE, UNSCHEDULABLE];
        let mut taints = list(node, "/spec/taints").to_vec();
        taints.retain(|taint| !managed.contains(&text(taint, "/key")) || is_wanted(taint));
        for (key, effect) in desired {
            if !taints.iter().any(|taint| taint["key"] == key && taint["effect"] == effect) {
                taints.push(json!({"key": key, "effect": effect, "timeAdded": now}));
            }
        }
        let spec = object::entry(node, "spec");
        if taints.is_empty() {
            spec.shift_remove("taints");
        } else {
            spec.insert("taints".to_owned(), Value::Array(taints));
        }
    });
}

/// Deletes the pods of nodes that no longer exist.
fn remove_orphans(state: &mut State) {
    let kind = state.kind("pods");
    for pod in state.all("pods") {
        let node = text(&pod, "/spec/nodeName");
        let is_lost = !node.is_empty() && state.get("nodes", "", node).is_none();
        let is_mirror = annotation(&pod, "kubernetes.io/config.mirror").is_some();
        if is_lost && (is_mirror || !object::has_finalizers(&pod)) {
            state.remove(&kind, namespace(&pod), name(&pod));
        }
    }
}
