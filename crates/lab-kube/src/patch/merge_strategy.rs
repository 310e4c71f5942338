//! Merge strategy of the lists of the built-in kinds.

use serde_json::{Map, Value};

/// Merge strategy of a list in a Kubernetes object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum MergeStrategy {
    /// Atomic list, which a patch replaces as a whole.
    Atomic,
    /// List that is a set of strings.
    Set,
    /// List of objects that are identified by these keys.
    Keyed(&'static [&'static str]),
}

/// Merge strategy of the list `field` inside the field `parent`.
pub(super) fn of(parent: &str, field: &str) -> MergeStrategy {
    match (parent, field) {
        ("metadata", "finalizers") | ("spec", "podCIDRs") => MergeStrategy::Set,
        ("metadata", "ownerReferences") => MergeStrategy::Keyed(&["uid"]),
        (
            _,
            "containers"
            | "initContainers"
            | "ephemeralContainers"
            | "volumes"
            | "env"
            | "imagePullSecrets"
            | "resourceClaims",
        )
        | ("", "secrets") => MergeStrategy::Keyed(&["name"]),
        ("spec", "ports") => MergeStrategy::Keyed(&["port", "protocol"]),
        ("containers" | "initContainers" | "ephemeralContainers", "ports") => {
            MergeStrategy::Keyed(&["containerPort", "protocol"])
        }
        (_, "volumeMounts") => MergeStrategy::Keyed(&["mountPath"]),
        (_, "volumeDevices") => MergeStrategy::Keyed(&["devicePath"]),
        ("status", "conditions" | "addresses") => MergeStrategy::Keyed(&["type"]),
        ("spec", "hostAliases") => MergeStrategy::Keyed(&["ip"]),
        ("spec", "topologySpreadConstraints") => {
            MergeStrategy::Keyed(&["topologyKey", "whenUnsatisfiable"])
        }
        _ => MergeStrategy::Atomic,
    }
}

/// Merge strategy of a list in a custom object. Only the lists in the metadata have a known strategy; all others are atomic.
pub(super) fn of_custom(parent: &str, field: &str) -> MergeStrategy {
    if parent == "metadata" { of(parent, field) } else { MergeStrategy::Atomic }
}

/// Key of an item in a keyed list. A missing `protocol` counts as TCP.
pub(super) fn key(item: &Value, keys: &[&str]) -> Map<String, Value> {
    let default = |key: &str| if key == "protocol" { "TCP".into() } else { Value::Null };
    let value = |key: &str| item.get(key).cloned().unwrap_or_else(|| default(key));
    keys.iter().map(|name| ((*name).to_owned(), value(name))).collect()
}
