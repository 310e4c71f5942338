//! Pods leave nodes whose taints they do not put up with, at once or after a while.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;

use super::{event, pod};
use crate::admit;
use crate::object::{self, list, name, namespace, text, uid};
use crate::store::State;

/// When the next pod has to leave.
pub(super) fn pass(state: &mut State) -> Option<Duration> {
    let nodes: BTreeMap<String, Vec<Value>> = state
        .iter("nodes")
        .map(|node| (name(node).to_owned(), driving_out(node)))
        .filter(|(_, taints)| !taints.is_empty())
        .collect();
    let pods = if nodes.is_empty() { vec![] } else { state.all("pods") };
    let mut waiting = BTreeMap::new();
    let mut due = vec![];
    for pod in pods {
        let Some(taints) = nodes.get(text(&pod, "/spec/nodeName")) else { continue };
        let Some(patience) = patience(&pod, taints) else { continue };
        let since = state.machines.leaving.get(uid(&pod)).copied().unwrap_or(state.now);
        if state.now < since + patience {
            waiting.insert(uid(&pod).to_owned(), since);
            due.push(since + patience);
        } else {
            evict(state, &pod);
        }
    }
    state.machines.leaving = waiting;
    due.into_iter().min()
}

fn driving_out(node: &Value) -> Vec<Value> {
    let taints = list(node, "/spec/taints").iter();
    taints.filter(|taint| text(taint, "/effect") == "NoExecute").cloned().collect()
}

/// How long a pod stays where these taints are; none for as long as it likes.
fn patience(pod: &Arc<Value>, taints: &[Value]) -> Option<Duration> {
    let is_mirror = object::controller(pod).is_some_and(|owner| text(owner, "/kind") == "Node");
    if is_mirror || !pod::is_active(pod) {
        return None;
    }
    let mut careful = Value::clone(pod);
    admit::tolerate_troubles(&mut careful);
    let tolerations = list(&careful, "/spec/tolerations");
    let mut shortest = None;
    for taint in taints {
        let fitting = tolerations.iter().find(|one| pod::tolerates_by(one, taint));
        let Some(fitting) = fitting else { return Some(Duration::ZERO) };
        if let Some(seconds) = fitting["tolerationSeconds"].as_i64() {
            let time = Duration::from_secs(u64::try_from(seconds).unwrap_or_default());
            shortest = Some(shortest.map_or(time, |known: Duration| known.min(time)));
        }
    }
    shortest
}

fn evict(state: &mut State, pod: &Value) {
    let message = format!("Marking for deletion Pod {}/{}", namespace(pod), name(pod));
    let who = ("taint-eviction-controller", "Normal");
    event::record(state, pod, who, "TaintManagerEviction", &message);
    // It was there a moment ago, under the same lock.
    state.delete_inside("pods", namespace(pod), name(pod)).ok();
}
