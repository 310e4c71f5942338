//! PodDisruptionBudget controller: computes how many pods may be evicted.

use std::sync::Arc;

use serde_json::{Value, json};

use super::pod;
use crate::failure::Failure;
use crate::object::{self, name, namespace, number};
use crate::selector::Selector;
use crate::store::State;

const ID: &str = "poddisruptionbudgets.policy";

struct Budget {
    expected: u64,
    healthy: u64,
    wanted: u64,
}

impl Budget {
    fn of(state: &State, budget: &Value) -> Self {
        let selector = Selector::of_object(&budget["spec"]["selector"]);
        let pods = state.in_namespace("pods", namespace(budget));
        let selected: Vec<_> =
            pods.filter(|pod| selector.matches(pod) && pod::is_active(pod)).collect();
        let expected = selected.len() as u64;
        let healthy = selected.iter().filter(|pod| pod::is_ready(pod)).count() as u64;
        let spec = &budget["spec"];
        let wanted = match (spec.get("minAvailable"), spec.get("maxUnavailable")) {
            (Some(least), _) => pod::share(least, expected, true),
            (None, Some(most)) => expected.saturating_sub(pod::share(most, expected, true)),
            (None, None) => 0,
        };
        Self { expected, healthy, wanted }
    }

    fn allowed(&self) -> u64 {
        self.healthy.saturating_sub(self.wanted)
    }
}

/// Rejects the eviction of a pod that a disruption budget does not allow.
pub(crate) fn check(state: &State, pod: &Arc<Value>) -> Result<(), Failure> {
    if !pod::is_active(pod) || !pod::is_ready(pod) {
        return Ok(());
    }
    for budget in state.in_namespace(ID, namespace(pod)) {
        let now = Budget::of(state, budget);
        let is_selected = Selector::of_object(&budget["spec"]["selector"]).matches(pod);
        if is_selected && now.allowed() == 0 {
            return Err(Failure::disruption_budget(name(budget), now.healthy, now.wanted));
        }
    }
    Ok(())
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
                "desiredHealthy": now.wanted,
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
