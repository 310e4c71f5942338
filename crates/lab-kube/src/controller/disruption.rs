//! PodDisruptionBudget controller: computes how many pods may be evicted.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Value, json};

use super::pod;
use crate::broken_budget::BrokenBudget;
use crate::failure::Failure;
use crate::object::{self, name, namespace, number};
use crate::selector::Selector;
use crate::store::State;

const ID: &str = "poddisruptionbudgets.policy";

/// Budgets that have too few healthy pods because healthy pods were evicted or deleted after a revision.
pub(crate) fn broken_since(state: &State, revision: u64) -> Vec<BrokenBudget> {
    let Some(pods) = state.kind_store("pods") else { return vec![] };
    let start = pods.history.partition_point(|change| change.revision <= revision);
    let mut broken = vec![];
    for change in pods.history.iter().skip(start) {
        let Some(before) = &change.before else { continue };
        let was_healthy = pod::is_active(before) && pod::is_ready(before);
        let is_disrupted = change.gone || object::is_being_deleted(&change.after);
        if !was_healthy || !is_disrupted {
            continue;
        }
        for budget in state.in_namespace(ID, namespace(before)) {
            let now = Budget::of(state, budget);
            let is_selected = Selector::of_object(&budget["spec"]["selector"]).matches(before);
            if is_selected && now.healthy < now.desired {
                broken.push(BrokenBudget {
                    namespace: namespace(budget).to_owned(),
                    budget: name(budget).to_owned(),
                    pod: name(before).to_owned(),
                    healthy: now.healthy,
                    required: now.desired,
                });
            }
        }
    }
    broken
}

struct Budget {
    expected: u64,
    healthy: u64,
    desired: u64,
}

impl Budget {
    fn of(state: &State, budget: &Value) -> Self {
        let selector = Selector::of_object(&budget["spec"]["selector"]);
        let pods = state.in_namespace("pods", namespace(budget));
        let selected: Vec<_> =
            pods.filter(|pod| selector.matches(pod) && pod::is_active(pod)).collect();
        let spec = &budget["spec"];
        // A `minAvailable` that is a number refers to the existing pods. Otherwise the budget refers to the replicas that the
        // controllers of the pods request.
        let expected = if spec.get("minAvailable").is_some_and(Value::is_u64) {
            selected.len() as u64
        } else {
            let scales: BTreeMap<String, u64> =
                selected.iter().filter_map(|pod| scale(state, pod)).collect();
            scales.values().sum()
        };
        let healthy = selected.iter().filter(|pod| pod::is_ready(pod)).count() as u64;
        let desired = match (spec.get("minAvailable"), spec.get("maxUnavailable")) {
            (Some(least), _) => pod::share(least, expected, true),
            (None, Some(most)) => expected.saturating_sub(pod::share(most, expected, true)),
            (None, None) => 0,
        };
        Self { expected, healthy, desired }
    }

    fn allowed(&self) -> u64 {
        self.healthy.saturating_sub(self.desired)
    }

    /// Whether the budget permits the eviction of a pod. A pod that is not ready may be evicted if the budget is met, or if the
    /// policy is `AlwaysAllow`.
    fn permits(&self, is_ready: bool, policy: &str) -> bool {
        let is_met = self.desired > 0 && self.healthy >= self.desired;
        let is_ignored = !is_ready && (policy == "AlwaysAllow" || is_met);
        is_ignored || self.allowed() > 0
    }
}

/// UID and number of replicas of the workload that controls a pod; `None` for a pod without such a workload.
fn scale(state: &State, pod: &Value) -> Option<(String, u64)> {
    let owned = |object: &Value| {
        let owner = object::controller(object)?;
        let id = match object::text(owner, "/kind") {
            "ReplicaSet" => "replicasets.apps",
            "Deployment" => "deployments.apps",
            "StatefulSet" => "statefulsets.apps",
            _ => return None,
        };
        state.get(id, namespace(pod), object::text(owner, "/name")).cloned()
    };
    let set = owned(pod)?;
    let workload = owned(set.as_ref()).unwrap_or(set);
    Some((object::uid(&workload).to_owned(), number(&workload, "/spec/replicas").unwrap_or(1)))
}

/// Rejects the eviction of a pod if a disruption budget does not allow it.
pub(crate) fn check(state: &State, pod: &Arc<Value>) -> Result<(), Failure> {
    let is_pending = object::text(pod, "/status/phase") == "Pending";
    if !pod::is_active(pod) || is_pending {
        return Ok(());
    }
    let mut budgets = state
        .in_namespace(ID, namespace(pod))
        .filter(|budget| Selector::of_object(&budget["spec"]["selector"]).matches(pod));
    let Some(budget) = budgets.next() else { return Ok(()) };
    if budgets.next().is_some() {
        return Err(Failure::several_budgets());
    }
    let now = Budget::of(state, budget);
    let policy = object::text(budget, "/spec/unhealthyPodEvictionPolicy");
    if now.permits(pod::is_ready(pod), policy) {
        return Ok(());
    }
    Err(Failure::disruption_budget(name(budget), now.healthy, now.desired))
}

pub(super) fn pass(state: &mut State) {
    let time = state.timestamp();
    for budget in state.all(ID) {
        let now = Budget::of(state, &budget);
        state.change(ID, namespace(&budget), name(&budget), |budget| {
            let observed = number(budget, "/metadata/generation").unwrap_or(1);
            let conditions = budget["status"].get("conditions").cloned();
            budget["status"] = json!({
                "expectedPods": now.expected,
                "currentHealthy": now.healthy,
                "desiredHealthy": now.desired,
                "disruptionsAllowed": now.allowed(),
                "observedGeneration": observed,
                "conditions": conditions.unwrap_or_else(|| json!([])),
            });
            let (status, reason) = match now.allowed() {
                0 => ("False", "InsufficientPods"),
                _ => ("True", "SufficientPods"),
            };
            object::set_condition(budget, &time, "DisruptionAllowed", status, reason, "");
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pods_that_are_not_ready_count_while_a_budget_is_not_met() {
        let budget = |healthy, desired| Budget { expected: 3, healthy, desired };
        assert!(budget(3, 2).permits(true, ""));
        assert!(!budget(2, 2).permits(true, ""));
        assert!(budget(2, 2).permits(false, ""));
        assert!(!budget(1, 2).permits(false, "IfHealthyBudget"));
        assert!(budget(1, 2).permits(false, "AlwaysAllow"));
        assert!(!budget(1, 2).permits(true, "AlwaysAllow"));
    }
}
