//! Admission: what the API server's plugins add to new pods, which they refuse, and which namespaces they keep. Of pods
//! only where the lab decides that: a store behind a real API server believes what that one let through.

use serde_json::{Value, json};

use super::failure::Failure;
use super::kind::Kind;
use super::object::{self, list, text};
use super::security::{self, PodSecurity};
use super::store::{KubeStore, State};

const PRIORITIES: &str = "priorityclasses.scheduling.k8s.io";
const RUNTIMES: &str = "runtimeclasses.node.k8s.io";
const MIRROR: &str = "kubernetes.io/config.mirror";
/// Namespaces that no cluster can do without.
const IMMORTAL: [&str; 3] = ["default", "kube-public", "kube-system"];
/// How long pods stay on nodes that are not ready or lost, unless they say otherwise.
pub(super) const PATIENCE: u64 = 300;
/// What becomes of nodes by themselves.
pub(super) const TROUBLES: [&str; 2] =
    ["node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"];

impl KubeStore {
    /// From now on pods are admitted as an API server of this version (`v1.34.1`) with these plugins does it.
    pub fn admit_pods_by(&self, plugins: &[Value], server_version: &str) {
        let security = PodSecurity::of_plugins(plugins, server_version);
        self.with(|state| state.pod_security = Some(security));
    }
}

/// Completes a new object by what it refers to, which has to be there.
pub(super) fn complete(state: &State, kind: &Kind, new: &mut Value) -> Result<(), Failure> {
    if kind.id != "pods" || state.pod_security.is_none() {
        return Ok(());
    }
    let refused = |new: &Value, cause: &str| {
        let name = match object::name(new) {
            "" => text(new, "/metadata/generateName"),
            name => name,
        };
        Err(Failure::forbidden(kind, name, cause))
    };
    let (namespace, account) = (object::namespace(new), text(new, "/spec/serviceAccountName"));
    // The account of that name is there moments after its namespace: nobody has to be faster than that.
    let is_there = matches!(account, "" | "default")
        || state.get("serviceaccounts", namespace, account).is_some();
    if object::annotation(new, MIRROR).is_none() && !is_there {
        let cause = format!(
            "error looking up service account {namespace}/{account}: serviceaccount \"{account}\" not found"
        );
        return refused(new, &cause);
    }
    let class = text(new, "/spec/priorityClassName").to_owned();
    let found = match class.as_str() {
        "" => state.iter(PRIORITIES).find(|class| object::flag(class, "/globalDefault")),
        class => state.get(PRIORITIES, "", class),
    };
    if found.is_none() && !class.is_empty() {
        return refused(new, &format!("no PriorityClass with name {class} was found"));
    }
    let value = found.and_then(|class| class["value"].as_i64()).unwrap_or_default();
    if let Some(given) = new["spec"]["priority"].as_i64().filter(|given| *given != value) {
        let cause = format!(
            "the integer value of priority ({given}) must not be provided in pod spec; priority admission controller computed {value} from the given PriorityClass name"
        );
        return refused(new, &cause);
    }
    let preemption = found.map_or("", |class| text(class, "/preemptionPolicy")).to_owned();
    let default_class = found.map(|class| object::name(class).to_owned());
    let runtime = text(new, "/spec/runtimeClassName");
    if !runtime.is_empty() && state.get(RUNTIMES, "", runtime).is_none() {
        return refused(new, &format!("pod rejected: RuntimeClass \"{runtime}\" not found"));
    }
    let spec = object::entry(new, "spec");
    if let Some(default) = default_class.filter(|_| class.is_empty()) {
        spec.insert("priorityClassName".to_owned(), default.into());
    }
    spec.insert("priority".to_owned(), value.into());
    let preemption = if preemption.is_empty() { "PreemptLowerPriority" } else { &preemption };
    spec.entry("preemptionPolicy").or_insert_with(|| preemption.into());
    tolerate_troubles(new);
    Ok(())
}

/// A pod that says nothing of nodes in trouble stays there for a while.
pub(super) fn tolerate_troubles(pod: &mut Value) {
    let mut all = list(pod, "/spec/tolerations").to_vec();
    for key in TROUBLES {
        let is_meant = |toleration: &&Value| {
            matches!(text(toleration, "/effect"), "" | "NoExecute")
                && (text(toleration, "/key") == key || text(toleration, "/key").is_empty())
        };
        if all.iter().any(|toleration| is_meant(&toleration)) {
            continue;
        }
        all.push(json!({
            "key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": PATIENCE,
        }));
    }
    object::entry(pod, "spec").insert("tolerations".to_owned(), Value::Array(all));
}

/// Refuses to let go what has to stay.
pub(super) fn check_deletion(kind: &Kind, name: &str) -> Result<(), Failure> {
    if kind.id == "namespaces" && IMMORTAL.contains(&name) {
        return Err(Failure::forbidden(kind, name, "this namespace may not be deleted"));
    }
    Ok(())
}

/// Refuses pods that their namespace does not allow.
pub(super) fn check(state: &State, kind: &Kind, new: &Value) -> Result<(), Failure> {
    match security::refusal(state, new) {
        Some(cause) if kind.id == "pods" => {
            Err(Failure::forbidden(kind, object::name(new), &cause))
        }
        _ => Ok(()),
    }
}
