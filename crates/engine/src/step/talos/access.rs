//! How steps speak to the cluster they make.

use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;

use talmox_talos_api::{Address, Client, Credentials, Settings, Verdict, probe};
use talmox_talos_config::random::SystemRandomness;
use talmox_talos_config::secret::SecretText;
use talmox_talos_config::secrets::Bundle;

use crate::kube::KubeClient;
use crate::step::StepError;

/// kubeconfig and talosconfig, for whoever writes files.
#[derive(Clone, Debug)]
pub struct ClientFiles {
    pub cluster: String,
    pub kubeconfig: SecretText,
    pub talosconfig: SecretText,
}

/// Writes the files; says why not, if it cannot.
pub type WriteFiles = Arc<dyn Fn(ClientFiles) -> Result<(), String> + Send + Sync>;

/// What all steps share that concern Talos and Kubernetes.
#[derive(Clone)]
pub struct ClusterAccess {
    pub bundle: Arc<Bundle>,
    pub credentials: Credentials,
    /// Of both APIs.
    pub settings: Settings,
    /// Every way to the Kubernetes API: the shared address first, then the control planes.
    pub api: Vec<Address>,
    pub write_files: WriteFiles,
}

impl ClusterAccess {
    pub(super) async fn probe(&self, node: IpAddr) -> Result<Verdict, StepError> {
        let address = Address::new(node.to_string());
        let found = probe(&address, &self.credentials, None, &self.settings).await;
        found.map_err(|error| StepError::failed("speak to the node").caused_by(error))
    }

    /// A client of a configured node, by its own address.
    pub(super) fn client(&self, node: IpAddr) -> Result<Client, StepError> {
        let address = Address::new(node.to_string());
        let made = Client::new(address, &self.credentials, &self.settings);
        made.map_err(|error| StepError::failed("speak to the node").caused_by(error))
    }

    pub(super) fn kube(&self) -> Result<KubeClient, StepError> {
        self.kube_at(&self.api)
    }

    pub(super) fn kube_at(&self, endpoints: &[Address]) -> Result<KubeClient, StepError> {
        let randomness = &mut SystemRandomness::new();
        let made = KubeClient::new(&self.bundle, endpoints, &self.settings, randomness);
        made.map_err(|error| StepError::failed("speak to Kubernetes").caused_by(error))
    }
}

impl fmt::Debug for ClusterAccess {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClusterAccess").field("api", &self.api).finish_non_exhaustive()
    }
}
