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
    /// Client for the manifests of add-ons, and for images.
    pub web: &'a Web,
    pub purpose: Purpose,
}

/// Purpose of an observation. It determines which requests are sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// A plan that may create VMs. Only for this purpose, requests are sent to the sources of images. Manifests of add-ons are
    /// requested for every purpose.
    Change,
    /// A plan that removes VMs.
    Removal,
    /// A report that must be complete within seconds. A node, a server of manifests or a Kubernetes API that takes longer is
    /// reported as not answering.
    Report,
}

impl Purpose {
    /// Timeout of all requests to nodes and Kubernetes together, counted from the answer of Proxmox. It is in real time,
    /// because it limits network connections.
    pub(super) fn limit(self) -> Duration {
        match self {
            // Longer than any request, because each request has its own timeout.
            Self::Change | Self::Removal => Duration::from_hours(24),
            Self::Report => Duration::from_secs(4),
        }
    }
}
