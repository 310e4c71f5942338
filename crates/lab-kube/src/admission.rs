//! Admission plugins of the API server: defaults for new pods, rejection of pods by PodSecurity, and protection of system
//! namespaces. A store that mirrors a real API server does not check PodSecurity, because the real API server has already
//! admitted the pods.

use serde_json::{Value, json};

use super::failure::Failure;
use super::kind::Kind;
use super::object::{self, list, text};
use super::security::{self, PodSecurity};
use super::store::{KubeStore, State};

const PRIORITIES: &str = "priorityclasses.scheduling.k8s.io";
const RUNTIMES: &str = "runtimeclasses.node.k8s.io";
const MIRROR: &str = "kubernetes.io/config.mirror";
/// Namespaces that cannot be deleted.
const PROTECTED_NAMESPACES: [&str; 3] = ["default", "kube-public", "kube-system"];
/// Default `tolerationSeconds` of pods on nodes that are not ready or unreachable.
pub(super) const TOLERATION_SECONDS: u64 = 300;
/// Keys of the taints that the node controller sets on nodes that are not ready or unreachable.
pub(super) const NODE_FAILURE_TAINTS: [&str; 2] =
    ["node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"];

impl KubeStore {
    /// Enables pod admission with the given admission plugins. `server_version` is the version of the API server, such as
    /// `v1.34.1`.
    pub fn admit_pods_by(&self, plugins: &[Value], server_version: &str) {
        let security = PodSecurity::of_plugins(plugins, server_version);
        self.with(|state| state.pod_security = Some(security));
    }
}

/// Fills in fields of a new pod from the objects that the pod refers to. Fails if one of these objects does not exist.
pub(super) fn complete(state: &State, kind: &Kind, new: &mut Value) -> Result<(), Failure> {
    if kind.id != "pods" || state.pod_security.is_none() {
        return Ok(());
    }
    let rejected = |new: &Value, cause: &str| {
        let name = match object::name(new) {
            "" => text(new, "/metadata/generateName"),
            name => name,
        };
        Err(Failure::forbidden(kind, name, cause))
    };
    let (namespace, account) = (object::namespace(new), text(new, "/spec/serviceAccountName"));
    // The service account `default` counts as existing, because the service account controller creates it shortly after the
    // namespace.
    let is_there = matches!(account, "" | "default")
        || state.get("serviceaccounts", namespace, account).is_some();
    if object::annotation(new, MIRROR).is_none() && !is_there {
        let cause = format!(
            "error looking up service account {namespace}/{account}: serviceaccount \"{account}\" not found"
        );
        return rejected(new, &cause);
    }
    let class = text(new, "/spec/priorityClassName").to_owned();
    let found = match class.as_str() {
        "" => state.iter(PRIORITIES).find(|class| object::flag(class, "/globalDefault")),
        class => state.get(PRIORITIES, "", class),
    };
    if found.is_none() && !class.is_empty() {
        return rejected(new, &format!("no PriorityClass with name {class} was found"));
    }
    let value = found.and_then(|class| class["value"].as_i64()).unwrap_or_default();
    if let Some(given) = new["spec"]["priority"].as_i64().filter(|given| *given != value) {
        let cause = format!(
            "the integer value of priority ({given}) must not be provided in pod spec; priority admission controller computed {value} from the given PriorityClass name"
        );
        return rejected(new, &cause);
    }
    let preemption = found.map_or("", |class| text(class, "/preemptionPolicy")).to_owned();
    let default_class = found.map(|class| object::name(class).to_owned());
    let runtime = text(new, "/spec/runtimeClassName");
    if !runtime.is_empty() && state.get(RUNTIMES, "", runtime).is_none() {
        return rejected(new, &format!("pod rejected: RuntimeClass \"{runtime}\" not found"));
    }
    let spec = object::entry(new, "spec");
    if let Some(default) = default_class.filter(|_| class.is_empty()) {
        spec.insert("priorityClassName".to_owned(), default.into());
    }
    spec.insert("priority".to_owned(), value.into());
    let preemption = if preemption.is_empty() { "PreemptLowerPriority" } else { &preemption };
    spec.entry("preemptionPolicy").or_insert_with(|| preemption.into());
    add_default_tolerations(new);
    Ok(())
}

/// Adds the default tolerations for nodes that are not ready or unreachable. A toleration that the pod already has stays
/// unchanged.
pub(super) fn add_default_tolerations(pod: &mut Value) {
    let mut all = list(pod, "/spec/tolerations").to_vec();
    for key in NODE_FAILURE_TAINTS {
        let has_key = |toleration: &&Value| {
            matches!(text(toleration, "/effect"), "" | "NoExecute")
                && (text(toleration, "/key") == key || text(toleration, "/key").is_empty())
        };
        if all.iter().any(|toleration| has_key(&toleration)) {
            continue;
        }
        all.push(json!({
            "key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": TOLERATION_SECONDS,
        }));
    }
    object::entry(pod, "spec").insert("tolerations".to_owned(), Value::Array(all));
}

/// Rejects the deletion of system namespaces.
pub(super) fn check_deletion(kind: &Kind, name: &str) -> Result<(), Failure> {
    if kind.id == "namespaces" && PROTECTED_NAMESPACES.contains(&name) {
        return Err(Failure::forbidden(kind, name, "this namespace may not be deleted"));
    }
    Ok(())
}

/// Rejects pods that the PodSecurity level of their namespace does not allow.
pub(super) fn check(state: &State, kind: &Kind, new: &Value) -> Result<(), Failure> {
    match security::rejection(state, new) {
        Some(cause) if kind.id == "pods" => {
            Err(Failure::forbidden(kind, object::name(new), &cause))
        }
        _ => Ok(()),
    }
}
