//! Kubernetes as Talos runs it: API servers and static pods of control planes, kubelets, and bootstrap manifests.

mod api_server;
mod component;
mod control_plane;
mod kubelet;
mod machine;
mod manifest;
mod node_spec;
mod reachable_server;
mod server_host;
mod static_pod;
#[cfg(test)]
mod tests;

pub(crate) use api_server::{ApiBackend, BackendListener};
pub(crate) use component::Components;
pub(crate) use control_plane::run_control_plane;
pub(crate) use kubelet::run_kubelet;
pub(crate) use manifest::{core_dns_image, flannel_image, of_config as manifests, proxy_args};
pub(crate) use node_spec::{labels as node_labels, taints as node_taints};
pub(crate) use static_pod::of_control_plane as static_pods;
