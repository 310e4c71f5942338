//! The client: requests go in, answers come out, whichever endpoint gave them.
//!
//! It retries only what is safe: a request that was never sent goes to the next endpoint; a read
//! whose answer was lost is asked again; a write whose answer was lost is an error that says so. It
//! prints nothing and waits for nothing but sockets, room, and tasks.

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
pub use task::{Running, TaskDone, TaskPatience};
pub use task_log::TaskLog;
pub use upload::FileSource;

/// All that a client is made from.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Hosts of one and the same cluster, dearest first.
    pub endpoints: Vec<Endpoint>,
    pub trust: Trust,
    pub credentials: Credentials,
    pub limits: Limits,
    pub timeouts: Timeouts,
    pub clock: Clock,
    /// What jitter is drawn from.
    pub seed: u64,
}

/// How long sockets are waited for. These do not scale: bytes cross a real network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timeouts {
    /// For each step of connecting.
    pub connect: Duration,
    /// For an answer, or, while a file is sent, for any byte to go out. Proxmox itself gives up on
    /// a node after 30 s.
    pub answer: Duration,
}

impl Default for Timeouts {
    fn default() -> Self {
        Self { connect: Duration::from_secs(10), answer: Duration::from_mins(1) }
    }
}

/// Why there is no client.
#[derive(Debug, thiserror::Error)]
pub enum SettingsError {
    #[error("no endpoint is given")]
    NoEndpoint,
    #[error("it is not clear whom to trust")]
    Trust(#[from] TrustError),
}

/// A client of one Proxmox cluster. Clones share connections, limits and session.
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
    /// Nothing is connected yet.
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

    /// Whether servers are not checked at all: whoever runs this client must warn the user.
    pub fn is_insecure(&self) -> bool {
        self.0.is_insecure
    }

    /// What was asked so far, and what has no answer yet.
    pub fn activity(&self) -> Activity {
        self.0.activity.now()
    }

    /// Says which storages are shared: room on them is counted for all hosts together.
    pub fn set_shared(&self, storages: impl IntoIterator<Item = StorageId>) {
        self.0.limiter.set_shared(storages.into_iter().collect::<BTreeSet<_>>());
    }

    /// Sends one request. A change that burdens storages waits for room on them.
    pub async fn send<T>(&self, request: &Request<T>) -> Result<T, PveError> {
        let room = self.room_to_send(request).await;
        self.send_in(room, request).await
    }

    /// Waits for room for a request that has no task.
    pub async fn room_to_send<T>(&self, request: &Request<T>) -> Permits {
        let is_burden = request.method() != Method::Get && !request.scope().storages.is_empty();
        let scope = if is_burden { request.scope() } else { &Scope::default() };
        self.room(scope).await
    }

    /// Sends the request, for which there is room.
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
