//! Client of the Proxmox API, with failover between endpoints.
//!
//! The client retries a request only if this is safe:
//! - A request that was never sent is sent to the next endpoint.
//! - A read whose answer was lost is sent again.
//! - A write whose answer was lost is a `MaybeApplied` error.
//!
//! The client does not print. It waits only for sockets, permits and tasks.

mod activity;
mod auth;
mod body;
mod connection;
mod endpoint;
mod limits;
mod send;
mod session;
mod task;
mod task_log;
mod trace;
mod upload;

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use talmox_clock::{Chance, Clock};
use talmox_pve_types::id::StorageId;
use talmox_pve_types::request::{Method, Request, Scope};
use tokio::sync::Mutex;
use tokio_rustls::TlsConnector;

use crate::error::PveError;
use crate::tls::{self, TrustError};

pub use crate::tls::Trust;
pub use activity::Activity;
pub use auth::{ApiToken, BadToken, Credentials};
pub use endpoint::Endpoint;
pub use limits::{Limits, Permits};
pub use task::{Running, TaskDone};
pub use task_log::TaskLog;
pub use upload::FileSource;

/// Settings of a client.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Hosts of the same Proxmox cluster, in the order of preference.
    pub endpoints: Vec<Endpoint>,
    pub trust: Trust,
    pub credentials: Credentials,
    pub limits: Limits,
    pub timeouts: Timeouts,
    pub clock: Clock,
    /// Seed of the random jitter.
    pub seed: u64,
}

/// Timeouts of sockets. They are in real time, also in a lab.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timeouts {
    /// Timeout of each step of connecting.
    pub connect: Duration,
    /// Timeout of an answer and, during an upload, of each write. Proxmox itself waits up to 30 s for a node.
    pub answer: Duration,
}

impl Default for Timeouts {
    fn default() -> Self {
        Self { connect: Duration::from_secs(10), answer: Duration::from_mins(1) }
    }
}

/// Error in the settings of a client.
#[derive(Debug, thiserror::Error)]
pub enum SettingsError {
    #[error("no endpoint of the Proxmox is configured")]
    NoEndpoint,
    #[error("the trust settings of the Proxmox are invalid")]
    Trust(#[from] TrustError),
}

/// Client of one Proxmox cluster. Clones share connections, limits and the session.
#[derive(Clone)]
pub struct Client(Arc<Inner>);

struct Inner {
    endpoints: endpoint::Endpoints,
    tls: TlsConnector,
    is_insecure: bool,
    credentials: Credentials,
    session: Mutex<Option<auth::Session>>,
    limiter: limits::Limiter,
    timeouts: Timeouts,
    clock: Clock,
    chance: Chance,
    uploads: AtomicU64,
    activity: activity::Tracker,
}

impl Client {
    /// Creates a client without connecting.
    pub fn new(settings: Settings) -> Result<Self, SettingsError> {
        let Settings { endpoints, trust, credentials, limits, timeouts, clock, seed } = settings;
        if endpoints.is_empty() {
            return Err(SettingsError::NoEndpoint);
        }
        Ok(Self(Arc::new(Inner {
            endpoints: endpoint::Endpoints::new(endpoints, limits.requests.max(1), clock),
            tls: TlsConnector::from(Arc::new(tls::config(&trust)?)),
            is_insecure: trust == Trust::Insecure,
            credentials,
            session: Mutex::default(),
            limiter: limits::Limiter::new(limits),
            timeouts,
            clock,
            chance: Chance::new(seed),
            uploads: AtomicU64::new(0),
            activity: activity::Tracker::default(),
        })))
    }

    /// Whether the client accepts any server certificate. The caller must warn the user.
    pub fn is_insecure(&self) -> bool {
        self.0.is_insecure
    }

    /// Number of requests so far, and of pending requests.
    pub fn activity(&self) -> Activity {
        self.0.activity.now()
    }

    /// Sets the list of shared storages. The limit of a shared storage applies to all hosts together.
    pub fn set_shared(&self, storages: impl IntoIterator<Item = StorageId>) {
        self.0.limiter.set_shared(storages.into_iter().collect::<BTreeSet<_>>());
    }

    /// Sends one request. A write that uses storages first waits for permits of these storages.
    pub async fn send<T>(&self, request: &Request<T>) -> Result<T, PveError> {
        let room = self.room_to_send(request).await;
        self.send_in(room, request).await
    }

    /// Waits for the permits of a request that starts no task. Only writes that use storages need permits.
    pub async fn room_to_send<T>(&self, request: &Request<T>) -> Permits {
        let uses_storages = request.method() != Method::Get && !request.scope().storages.is_empty();
        let scope = if uses_storages { request.scope() } else { &Scope::default() };
        self.room(scope).await
    }

    /// Sends a request. The permits are returned when the answer has arrived.
    pub async fn send_in<T>(&self, room: Permits, request: &Request<T>) -> Result<T, PveError> {
        let answer = self.send_now(request).await;
        drop(room);
        answer
    }

    async fn send_now<T>(&self, request: &Request<T>) -> Result<T, PveError> {
        let call = send::Call::of(request);
        let _asked = self.0.activity.begin(request.path());
        let answer = self.0.call(&call).await?;
        request.decode(&answer).map_err(|error| PveError::lost(&call.operation, error))
    }
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let hosts: Vec<String> =
            self.0.endpoints.all.iter().map(|contact| contact.endpoint.authority()).collect();
        f.debug_struct("Client").field("endpoints", &hosts).finish_non_exhaustive()
    }
}
