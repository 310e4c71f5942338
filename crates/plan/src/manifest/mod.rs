//! Kubernetes manifests as data: the objects, their namespaces, and whether a manifest needs a pod network, installs one, or assigns the shared
//! address.

mod addon_label;
mod hook;
mod pod_network;
mod read;
mod scope;
mod workload;

pub use addon_label::{LABEL, slug};
pub use hook::{HookPhase, without_helm_hooks};
pub use pod_network::is_pod_network;
pub use read::{ALWAYS_THERE, DEFAULT_NAMESPACE, Manifest, ManifestError, read_manifests};
pub use scope::{in_namespace, missing_namespace};
