//! Functions about pods that several controllers use.

use std::sync::Arc;

use serde_json::{Value, json};

use crate::object::{self, list, text};
use crate::store::State;

pub(super) fn is_ready(pod: &Value) -> bool {
    object::has_condition(pod, "Ready")
}

/// Whether the pod is neither finished nor terminating.
pub(super) fn is_active(pod: &Value) -> bool {
    !object::is_being_deleted(pod) && !has_ended(pod)
}

pub(super) fn has_ended(pod: &Value) -> bool {
    matches!(text(pod, "/status/phase"), "Succeeded" | "Failed")
}

/// Pods that the object controls.
pub(super) fn owned(state: &State, owner: &Value) -> Vec<Arc<Value>> {
    let pods = state.in_namespace("pods", object::namespace(owner));
    pods.filter(|pod| object::is_controlled_by(pod, owner)).cloned().collect()
}

/// Creates a pod from the template of its owner. Fields of `metadata` override those of the template.
pub(super) fn from_template(owner: &Value, metadata: &Value) -> Value {
    let template = &owner["spec"]["template"];
    let mut pod = json!({"metadata": {}, "spec": template["spec"]});
    for key in ["labels", "annotations"] {
        if let Some(map) = template["metadata"].get(key) {
            pod["metadata"][key] = map.clone();
        }
    }
    for (key, value) in metadata.as_object().into_iter().flatten() {
        match value.as_object() {
            Some(more) => {
                let map = object::entry(&mut pod["metadata"], key);
                map.extend(more.iter().map(|(key, value)| (key.clone(), value.clone())));
            }
            None => pod["metadata"][key] = value.clone(),
        }
    }
    pod["metadata"]["namespace"] = object::namespace(owner).into();
    pod["metadata"]["ownerReferences"] = json!([object::reference(owner)]);
    pod
}

/// Hash of a pod template, in letters that are valid in names. The order of the keys does not change the hash.
pub(super) fn template_hash(template: &Value) -> String {
    const LETTERS: &[u8; 16] = b"bcdfghjklmnpqrst";
    let mut sorted = template.clone();
    sorted.sort_all_objects();
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    for byte in sorted.to_string().bytes() {
        hash = (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    }
    hash.to_be_bytes()[..5]
        .iter()
        .flat_map(|byte| [byte >> 4, byte & 15])
        .map(|four| char::from(LETTERS[usize::from(four)]))
        .collect()
}

/// Number of pods from an absolute value or from a percentage of `whole`, as in `maxSurge` and `maxUnavailable`.
pub(super) fn share(value: &Value, whole: u64, round_up: bool) -> u64 {
    match value {
        Value::String(text) => {
            let percent: u64 = text.trim_end_matches('%').parse().unwrap_or_default();
            let parts = whole * percent;
            if round_up { parts.div_ceil(100) } else { parts / 100 }
        }
        other => other.as_u64().unwrap_or_default(),
    }
}

/// Whether any of the tolerations matches the taint.
fn tolerates(tolerations: &[Value], taint: &Value) -> bool {
    tolerations.iter().any(|toleration| tolerates_by(toleration, taint))
}

pub(super) fn tolerates_by(toleration: &Value, taint: &Value) -> bool {
    let (key, effect) = (text(toleration, "/key"), text(toleration, "/effect"));
    let fits_effect = effect.is_empty() || effect == text(taint, "/effect");
    let fits_key = key.is_empty() || key == text(taint, "/key");
    let fits_value = text(toleration, "/operator") == "Exists"
        || text(toleration, "/value") == text(taint, "/value");
    fits_effect && fits_key && fits_value
}

/// Whether a taint of the node keeps pods with these tolerations from being scheduled on the node.
pub(super) fn has_untolerated_taint(node: &Value, tolerations: &[Value]) -> bool {
    let taints = list(node, "/spec/taints").iter();
    let mut strict = taints.filter(|taint| text(taint, "/effect") != "PreferNoSchedule");
    strict.any(|taint| !tolerates(tolerations, taint))
}

/// Whether the node matches the pod's node selector and node affinity.
pub(super) fn matches_node(spec: &Value, node: &Value) -> bool {
    use crate::selector::Selector;
    let required =
        "/affinity/nodeAffinity/requiredDuringSchedulingIgnoredDuringExecution/nodeSelectorTerms";
    let terms = list(spec, required);
    Selector::of_labels(&spec["nodeSelector"]).matches(node)
        && (terms.is_empty() || terms.iter().any(|term| Selector::of_node_term(term).matches(node)))
}
