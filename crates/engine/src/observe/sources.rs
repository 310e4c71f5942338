//! Clients of the APIs that are observed.

use talmox_pve::Client;
use talmox_talos_api::{Credentials, Settings};

use crate::kube::KubeClient;
use crate::web::Web;

/// The port of the Kubernetes API.
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
    /// Whether the plan may create VMs. Only then the image factories and web servers are asked.
    pub is_making: bool,
}
