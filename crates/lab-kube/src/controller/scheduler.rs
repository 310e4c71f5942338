//! Scheduler: assigns a node to every pod.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Value, json};

use super::pod;
use crate::object::{self, flag, list, name, namespace, text};
use crate::store::State;

/// Maximum number of pods on a node.
const MAX_PODS: usize = 110;

pub(super) fn pass(state: &mut State) {
    let pods = state.all("pods");
    let is_waiting = |pod: &&Arc<Value>| {
        text(pod, "/spec/nodeName").is_empty()
            && pod::is_active(pod)
            && text(pod, "/spec/schedulerName") == "default-scheduler"
    };
    let waiting: Vec<&Arc<Value>> = pods.iter().filter(is_waiting).collect();
    if waiting.is_empty() {
        return;
    }
    let nodes = state.all("nodes");
    // Number of pods on each node, and number of pods of each owner on each node.
    let mut load: BTreeMap<String, usize> = BTreeMap::new();
    let mut kin: BTreeMap<(String, String), usize> = BTreeMap::new();
    for pod in pods.iter().filter(|pod| !text(pod, "/spec/nodeName").is_empty()) {
        let node = text(pod, "/spec/nodeName").to_owned();
        *kin.entry((node.clone(), owner(pod))).or_default() += 1;
        *load.entry(node).or_default() += 1;
    }
    for pod in waiting {
        let family = owner(pod);
        let fits = |node: &&Arc<Value>| {
            fits(pod, node) && load.get(name(node)).is_none_or(|count| *count < MAX_PODS)
        };
        let best = nodes.iter().filter(fits).min_by_key(|node| {
            let key = (name(node).to_owned(), family.clone());
            (
                kin.get(&key).copied().unwrap_or_default(),
                load.get(&key.0).copied().unwrap_or_default(),
            )
        });
        let now = state.timestamp();
        if let Some(node) = best {
            let node = name(node).to_owned();
            state.change("pods", namespace(pod), name(pod), |pod| {
                pod["spec"]["nodeName"] = node.as_str().into();
                object::set_condition(pod, &now, "PodScheduled", "True", "", "");
            });
            *kin.entry((node.clone(), family)).or_default() += 1;
            *load.entry(node).or_default() += 1;
        } else {
            let message = format!("0/{} nodes are available.", nodes.len());
            state.change("pods", namespace(pod), name(pod), |pod| {
                let reason = "Unschedulable";
                object::set_condition(pod, &now, "PodScheduled", "False", reason, &message);
            });
        }
    }
}

fn owner(pod: &Value) -> String {
    object::controller(pod).map(|owner| text(owner, "/uid").to_owned()).unwrap_or_default()
}

fn fits(pod: &Value, node: &Value) -> bool {
    let spec = &pod["spec"];
    let tolerations = list(spec, "/tolerations");
    let cordon = json!({
        "spec": {"taints": [{"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}]},
    });
    let is_cordoned =
        flag(node, "/spec/unschedulable") && pod::has_untolerated_taint(&cordon, tolerations);
    !is_cordoned && !pod::has_untolerated_taint(node, tolerations) && pod::matches_node(spec, node)
}
