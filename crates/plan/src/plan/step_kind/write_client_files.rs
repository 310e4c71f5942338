//! Step: write kubeconfig and talosconfig.

use std::net::IpAddr;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::StepKind;
use super::burden::Burden;
use super::node_effect::NodeEffect;
use super::part::Part;
use super::privilege::Privilege;
use super::run_phase::RunPhase;
use super::talos_node::TalosNode;
use crate::plan::step_id::StepId;

/// Creates kubeconfig and talosconfig, and passes them to the caller, which writes the files.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WriteClientFiles {
    pub cluster: String,
    /// The endpoint of the Kubernetes API.
    pub server: String,
    /// The shared address, if it is the endpoint. Until the shared address answers, kubeconfig contains the address of the
    /// first control plane.
    pub shared: Option<SharedAddress>,
    /// The control planes. Their addresses are the endpoints in talosconfig.
    pub endpoints: Vec<TalosNode>,
    /// All nodes that run Talos.
    pub nodes: Vec<TalosNode>,
    #[serde(rename = "deadline_seconds", with = "crate::plan::seconds")]
    pub deadline: Duration,
}

impl StepKind for WriteClientFiles {
    const KIND: &'static str = "write-client-files";
    const PART: Option<Part> = None;
    const PHASE: RunPhase = RunPhase::End;
    const NODE_EFFECT: NodeEffect = NodeEffect::None;

    fn privileges(&self) -> Vec<Privilege<'_>> {
        vec![]
    }

    fn burden(&self) -> Burden {
        Burden::default()
    }

    fn deadline(&self) -> Duration {
        self.deadline
    }
}

/// The shared address of the control planes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SharedAddress {
    pub address: IpAddr,
    pub port: u16,
    pub meanwhile: Meanwhile,
}

/// What the step does while the shared address does not answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Meanwhile {
    /// Wait for the shared address. If no step is named, or if the named step has failed, write the address of a control
    /// plane.
    Await(Option<StepId>),
    /// Write the address of a control plane. A later step of the run writes the files again.
    #[serde(rename = "control-plane")]
    Around,
    /// Write nothing, because an earlier step has written files with the address of a control plane.
    #[serde(rename = "keep")]
    Leave,
}
