//! Which lists of the built-in kinds are merged, and by what.

use serde_json::{Map, Value};

/// What a list is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Shape {
    /// Replaced as a whole.
    Atomic,
    /// Of texts that are there or not.
    Set,
    /// Of objects that these keys tell apart.
    Keyed(&'static [&'static str]),
}

/// The shape of the list `field` inside of `parent`.
pub(super) fn of(parent: &str, field: &str) -> Shape {
    match (parent, field) {
        ("metadata", "finalizers") | ("spec", "podCIDRs") => Shape::Set,
        ("metadata", "ownerReferences") => Shape::Keyed(&["uid"]),
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
        | ("", "secrets") => Shape::Keyed(&["name"]),
        ("spec", "ports") => Shape::Keyed(&["port", "protocol"]),
        ("containers" | "initContainers" | "ephemeralContainers", "ports") => {
            Shape::Keyed(&["containerPort", "protocol"])
        }
        (_, "volumeMounts") => Shape::Keyed(&["mountPath"]),
        (_, "volumeDevices") => Shape::Keyed(&["devicePath"]),
        ("status", "conditions" | "addresses") => Shape::Keyed(&["type"]),
        ("spec", "hostAliases") => Shape::Keyed(&["ip"]),
        ("spec", "topologySpreadConstraints") => {
            Shape::Keyed(&["topologyKey", "whenUnsatisfiable"])
        }
        _ => Shape::Atomic,
    }
}

/// Of custom objects only the metadata is known.
pub(super) fn of_custom(parent: &str, field: &str) -> Shape {
    if parent == "metadata" { of(parent, field) } else { Shape::Atomic }
}

/// What tells an item of a keyed list apart; a protocol that is not given is TCP.
pub(super) fn key(item: &Value, keys: &[&str]) -> Map<String, Value> {
    let default = |key: &str| if key == "protocol" { "TCP".into() } else { Value::Null };
    let value = |key: &str| item.get(key).cloned().unwrap_or_else(|| default(key));
    keys.iter().map(|name| ((*name).to_owned(), value(name))).collect()
}
