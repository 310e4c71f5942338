//! Taint eviction: deletes pods that do not tolerate the `NoExecute` taints of their node,
//! immediately or after `tolerationSeconds`.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;

use super::{event, pod};
use crate::admission;
use crate::object::{self, list, name, namespace, text, uid};
use crate::store::State;

/// Runs the controller once. Returns the time of the next eviction.
pub(super) fn pass(state: &mut State) -> Option<Duration> {
    let nodes: BTreeMap<String, Vec<Value>> = state
        .iter("nodes")
        .map(|node| (name(node).to_owned(), no_execute_taints(node)))
        .filter(|(_, taints)| !taints.is_empty())
        .collect();
    let pods = if nodes.is_empty() { vec![] } else { state.all("pods") };
    let mut waiting = BTreeMap::new();
    let mut due = vec![];
    for pod in pods {
        let Some(taints) = nodes.get(text(&pod, "/spec/nodeName")) else { continue };
        let Some(toleration_time) = toleration_time(&pod, taints) else { continue };
        let since = state.machines.leaving.get(uid(&pod)).copied().unwrap_or(state.now);
        if state.now < since + toleration_time {
            waiting.insert(uid(&pod).to_owned(), since);
            due.push(since + toleration_time);
        } else {
            evict(state, &pod);
        }
    }
    state.machines.leaving = waiting;
    due.into_iter().min()
}

fn no_execute_taints(node: &Value) -> Vec<Value> {
    let taints = list(node, "/spec/taints").iter();
    taints.filter(|taint| text(taint, "/effect") == "NoExecute").cloned().collect()
}

/// Time for which the pod tolerates these taints; `None` for no limit.
fn toleration_time(pod: &Arc<Value>, taints: &[Value]) -> Option<Duration> {
    let is_mirror = object::controller(pod).is_some_and(|owner| text(owner, "/kind") == "Node");
    if is_mirror || !pod::is_active(pod) {
        return None;
    }
    let mut careful = Value::clone(pod);
    admission::add_default_tolerations(&mut careful);
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
    // The deletion cannot fail, because the pod was listed while the same lock was held.
    state.delete_inside("pods", namespace(pod), name(pod)).ok();
}
