use serde_json::{Value, json};

use crate::plan::Plan;

/// The plan as JSON, without secrets.
pub fn json(plan: &Plan) -> Value {
    let steps: Vec<Value> = plan
        .steps
        .iter()
        .map(|step| {
            let burden = step.action.burden();
            let storages: Vec<&str> =
                burden.storages.iter().map(talmox_pve_types::id::StorageId::as_str).collect();
            json!({
                "id": step.id,
                "kind": step.action.kind(),
                "node": step.node,
                "after": step.after,
                "host": burden.host.as_ref().map(talmox_pve_types::id::NodeName::as_str),
                "storages": storages,
                "deadline_seconds": step.action.deadline().as_secs(),
            })
        })
        .collect();
    let may_reset: Vec<Value> = plan
        .may_reset()
        .into_iter()
        .map(|(node, resets)| json!({ "node": node, "at_most": resets }))
        .collect();
    json!({
        "format": 1,
        "cluster": plan.cluster,
        "is_empty": plan.is_empty(),
        "changes": plan.changes,
        "findings": plan.findings,
        "may_reset": may_reset,
        "steps": steps,
    })
}
