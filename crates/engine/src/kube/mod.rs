//! Kubernetes as talmox speaks to it: what a cluster looks like, plain manifests applied, workloads
//! awaited, nodes drained.
//!
//! Requests are kube's; the connection is ours, because an address may lead elsewhere (`reach`)
//! while the certificate bears the real one, and because there are several ways in.

mod applied;
mod apply;
mod connection;
mod drain;
mod error;
mod namespace;
mod network;
mod record;
mod refusal;
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
pub use drain::DrainError;
pub use error::KubeError;
pub use record::Noted;
pub use tls::KubeSetupError;
pub use view::NodeFacts;

use connection::Connection;

/// The port of the Kubernetes API.
pub const PORT: u16 = 6443;

/// Who owns the fields that talmox sets.
pub const FIELD_MANAGER: &str = "talmox";

/// However fast the clock runs, an answer gets this long: bytes cross a real network.
const LEAST: Duration = Duration::from_secs(5);

/// A client of one cluster's Kubernetes API, as its administrator. Clones share connections.
#[derive(Clone)]
pub struct KubeClient {
    inner: kube::Client,
    clock: Clock,
    limit: Duration,
}

impl KubeClient {
    /// With a certificate made from the bundle, which no file ever sees.
    ///
    /// Each of `endpoints` is as good as the others; those that come first are tried first.
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

    /// Whether the API answers, and that it is this cluster's: its version.
    pub async fn version(&self) -> Result<String, KubeError> {
        let info = self.ask("read the version", self.inner.apiserver_version()).await?;
        Ok(info.git_version)
    }

    /// Waits for an answer, as long as it may take.
    async fn ask<T>(
        &self,
        operation: impl Into<String>,
        answer: impl Future<Output = kube::Result<T>>,
    ) -> Result<T, KubeError> {
        let patience = self.limit.max(LEAST.mul_f64(self.clock.speed()));
        match self.clock.timeout(patience, Box::pin(answer)).await {
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

/// The Kubernetes API at these hosts.
pub fn endpoints<S: Into<String>>(hosts: impl IntoIterator<Item = S>) -> Arc<[Address]> {
    hosts.into_iter().map(|host| Address { host: host.into(), port: PORT }).collect()
}
