//! Kubernetes manifests as data: what they are about, what they need and what they bring.

mod addon_label;
mod pod_network;
mod read;
mod workload;

pub use addon_label::{LABEL, slug};
pub use pod_network::is_pod_network;
pub use read::{ALWAYS_THERE, DEFAULT_NAMESPACE, Manifest, ManifestError, read_manifests};
