//! Step: write kubeconfig and talosconfig.

use std::net::IpAddr;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::StepKind;
use super::talos_node::TalosNode;
use crate::plan::step_id::StepId;

/// Passes kubeconfig and talosconfig to the caller, which writes the files.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WriteClientFiles {
    pub cluster: String,
    /// The endpoint of the Kubernetes API.
    pub server: String,
    /// The shared address, if it is the endpoint. Until it answers, kubeconfig contains the address of the first
    /// control plane.
    pub shared: Option<SharedAddress>,
    /// The control planes, which are the endpoints of talosconfig.
    pub endpoints: Vec<TalosNode>,
    /// All nodes that run Talos.
    pub nodes: Vec<TalosNode>,
    #[serde(rename = "deadline_seconds", with = "crate::plan::seconds")]
    pub deadline: Duration,
}

impl StepKind for WriteClientFiles {
    const KIND: &'static str = "write-client-files";

    fn deadline(&self) -> Duration {
        self.deadline
    }
}

/// The shared address of control planes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SharedAddress {
    pub address: IpAddr,
    pub port: u16,
    pub meanwhile: Meanwhile,
}

/// Content of client files while the shared address does not answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Meanwhile {
    /// Wait for the shared address as long as this step does, if there is one; then lead to a control plane.
    Await(Option<StepId>),
    /// Lead to a control plane. A later step of the run writes them again.
    #[serde(rename = "control-plane")]
    Around,
    /// Write nothing, because an earlier step has written files with the address of a control plane.
    #[serde(rename = "keep")]
    Leave,
}
