//! Access to the cluster: Talos on its nodes, and Kubernetes.

use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;

use talmox_talos_api::{
    Address, Client, Credentials, Reach, Settings, SetupError, Verdict, node_address, probe,
};
use talmox_talos_config::random::SystemRandomness;
use talmox_talos_config::secret::SecretText;
use talmox_talos_config::secrets::Bundle;
use talmox_values::HttpUrl;

use crate::kube::{KubeClient, KubeSetupError};

/// First line of a kubeconfig that leads to one control plane, because the shared address did not answer. The next run of
/// `talmox up` replaces this kubeconfig.
pub const PROVISIONAL: &str =
    "# Leads to one control plane: the shared address did not answer. `talmox up` replaces it.\n";

/// Contents of kubeconfig and talosconfig.
#[derive(Clone, Debug)]
pub struct ClientFiles {
    pub cluster: String,
    pub kubeconfig: SecretText,
    pub talosconfig: SecretText,
}

/// Function that writes the client files. If it fails, it returns the reason.
pub type WriteFiles = Arc<dyn Fn(ClientFiles) -> Result<(), String> + Send + Sync>;

/// The URL through which this machine reaches the Kubernetes API, and the host name in the certificate of the API. The host
/// name is None if it is the host of the URL.
pub fn kubernetes_server(url: &str, reach: &Reach) -> (String, Option<String>) {
    let unchanged = (url.to_owned(), None);
    let Some(url) = HttpUrl::parse(url).ok().filter(|url| url.https) else { return unchanged };
    let address = url.address();
    let target = reach.target(&address);
    if target == address {
        return unchanged;
    }
    (format!("https://{target}"), Some(address.host))
}

/// Secrets, settings and addresses of a cluster.
#[derive(Clone)]
pub struct ClusterAccess {
    pub bundle: Arc<Bundle>,
    pub credentials: Credentials,
    /// Settings of both APIs.
    pub settings: Settings,
    /// Addresses of the Kubernetes API: the shared address first, then the control planes.
    pub api: Vec<Address>,
    /// Addresses of the cluster in its client files, which may differ from the inventory.
    pub earlier: Vec<IpAddr>,
    pub write_files: WriteFiles,
}

/// Reason why no API client can be created from the secrets bundle.
#[derive(Debug, thiserror::Error)]
pub enum AccessError {
    #[error("no client of the Talos API can be made")]
    Talos(#[from] SetupError),
    #[error("no client of the Kubernetes API can be made")]
    Kube(#[from] KubeSetupError),
}

impl ClusterAccess {
    /// Identifies the machine that answers at the address of a node.
    pub(crate) async fn probe(&self, node: IpAddr) -> Result<Verdict, AccessError> {
        let address = node_address(node.to_string());
        Ok(Box::pin(probe(&address, &self.credentials, None, &self.settings)).await?)
    }

    /// Client of the Talos API of a configured node, at the address of that node.
    pub(crate) fn client(&self, node: IpAddr) -> Result<Client, AccessError> {
        let address = node_address(node.to_string());
        Ok(Client::new(address, &self.credentials, &self.settings)?)
    }

    pub(crate) fn kube(&self) -> Result<KubeClient, AccessError> {
        self.kube_at(&self.api)
    }

    /// Client of the Kubernetes API that uses only these addresses.
    pub(crate) fn kube_at(&self, endpoints: &[Address]) -> Result<KubeClient, AccessError> {
        let randomness = &mut SystemRandomness::new();
        Ok(KubeClient::new(&self.bundle, endpoints, &self.settings, randomness)?)
    }
}

impl fmt::Debug for ClusterAccess {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClusterAccess").field("api", &self.api).finish_non_exhaustive()
    }
}
