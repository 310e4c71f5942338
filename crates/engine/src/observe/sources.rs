//! Clients of the APIs that are observed.

use std::time::Duration;

use talmox_pve::Client;
use talmox_talos_api::{Credentials, Settings};

use crate::kube::KubeClient;
use crate::web::Web;

/// Port of the Kubernetes API.
pub(super) const KUBERNETES: u16 = 6443;

/// Credentials and settings of the Talos API.
#[derive(Clone, Debug)]
pub struct TalosAccess {
    pub credentials: Credentials,
    pub settings: Settings,
}

/// The clients of all APIs.
#[derive(Clone, Copy, Debug)]
pub struct Sources<'a> {
    pub pve: &'a Client,
    pub talos: &'a TalosAccess,
    pub kube: &'a KubeClient,
    /// For the manifests of add-ons, and for images.
    pub web: &'a Web,
    pub purpose: Purpose,
}

/// What the observed state is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// A plan that may create VMs. Only for it the image factories and web servers are asked.
    Change,
    /// A plan that removes VMs.
    Removal,
    /// A report that must come within seconds: a node, a server of manifests or Kubernetes that takes longer counts as one that
    /// does not answer.
    Report,
}

impl Purpose {
    /// Timeout of the nodes and Kubernetes together, once Proxmox has answered. In real time: it limits sockets.
    pub(super) fn limit(self) -> Duration {
        match self {
            // Longer than any request, each of which has its own deadline.
            Self::Change | Self::Removal => Duration::from_hours(24),
            Self::Report => Duration::from_secs(4),
        }
    }
}
