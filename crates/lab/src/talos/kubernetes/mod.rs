//! Kubernetes, as far as Talos runs it: API servers and static pods of control planes, kubelets,
//! and the manifests that every cluster begins with.

mod api_server;
mod component;
mod control_plane;
mod kubelet;
mod machine;
mod manifest;
mod node_spec;
mod reach;
mod static_pod;
#[cfg(test)]
mod tests;

pub(crate) use api_server::{Behind, Listening};
pub(crate) use component::Components;
pub(crate) use control_plane::run_control_plane;
pub(crate) use kubelet::run_kubelet;
pub(crate) use manifest::of_config as manifests;
pub(crate) use static_pod::of_control_plane as static_pods;
