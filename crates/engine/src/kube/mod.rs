//! Client of the Kubernetes API: reads the state of a cluster, applies manifests, waits for workloads, drains nodes.
//!
//! The `kube` crate builds the requests. talmox opens the connections itself, for two reasons. The reach map may replace the
//! address to connect to, while the certificate contains the original address. And the API has several addresses.

mod applied;
mod apply;
mod connection;
mod drain;
mod error;
mod gitops;
mod mirror_pod;
mod namespace;
mod network;
mod node;
mod record;
mod rejection;
mod rejection_text;
mod rollout;
mod tls;
mod trace;
mod view;

use std::sync::Arc;
use std::time::Duration;

use talmox_clock::Clock;
use talmox_talos_api::{Address, Settings};
use talmox_talos_config::random::Randomness;
use talmox_talos_config::secrets::Bundle;

pub use applied::Comparison;
pub use apply::{ApplyError, Conflict};
pub use connection::{ApiDialError, Unanswered};
pub use drain::{LeavingPod, NodeCordon};
pub use error::KubeError;
pub use mirror_pod::MirrorPod;
pub use record::Noted;
pub use tls::KubeSetupError;
pub use view::NodeFacts;

use connection::Connection;

/// Port of the Kubernetes API.
pub const PORT: u16 = 6443;

/// Field manager of the fields that talmox sets.
pub const FIELD_MANAGER: &str = "talmox";

/// Minimum timeout of an answer, in real time. It also applies in a fast lab, because requests need real time on the
/// network.
const LEAST: Duration = Duration::from_secs(5);

/// Client of the Kubernetes API of one cluster, with administrator rights. Clones share connections.
#[derive(Clone)]
pub struct KubeClient {
    inner: kube::Client,
    clock: Clock,
    limit: Duration,
}

impl KubeClient {
    /// Creates a client. Its certificate is issued from the bundle and never written to a file.
    ///
    /// All `endpoints` lead to the same API. They are tried in their order.
    pub fn new(
        bundle: &Bundle,
        endpoints: &[Address],
        settings: &Settings,
        randomness: &mut dyn Randomness,
    ) -> Result<Self, KubeSetupError> {
        let tls = tls::client(bundle, settings.clock, randomness)?;
        let connection = Connection::new(endpoints, settings, tls);
        let inner = kube::Client::new(connection, "default");
        Ok(Self { inner, clock: settings.clock, limit: settings.limits.answer })
    }

    /// The version of the Kubernetes API. An answer proves that the API belongs to this cluster, because the client checks
    /// the server certificate.
    pub async fn version(&self) -> Result<String, KubeError> {
        let info = self.ask("read the version", self.inner.apiserver_version()).await?;
        Ok(info.git_version)
    }

    /// Sends a request, and waits for its answer until the timeout.
    async fn ask<T>(
        &self,
        operation: impl Into<String>,
        answer: impl Future<Output = kube::Result<T>>,
    ) -> Result<T, KubeError> {
        let time = self.limit.max(LEAST.mul_f64(self.clock.speed()));
        match self.clock.timeout(time, Box::pin(answer)).await {
            Ok(Ok(answer)) => Ok(answer),
            Ok(Err(error)) => Err(KubeError::new(operation.into(), error)),
            Err(_) => Err(KubeError::Late { operation: operation.into() }),
        }
    }
}

impl std::fmt::Debug for KubeClient {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("KubeClient").finish_non_exhaustive()
    }
}

/// The addresses of the Kubernetes API at these hosts.
pub fn endpoints<S: Into<String>>(hosts: impl IntoIterator<Item = S>) -> Arc<[Address]> {
    hosts.into_iter().map(|host| Address { host: host.into(), port: PORT }).collect()
}
