//! Kubernetes manifests as data: the objects, and whether a manifest needs a pod network, installs one, or assigns the shared
//! address.

mod addon_label;
mod pod_network;
mod read;
mod workload;

pub use addon_label::{LABEL, slug};
pub use pod_network::is_pod_network;
pub use read::{ALWAYS_THERE, DEFAULT_NAMESPACE, Manifest, ManifestError, read_manifests};
