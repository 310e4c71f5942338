//! Connections to the Kubernetes API. A connection is opened when a request needs one, and is used again until the server
//! closes it.
//!
//! The shared address and every control plane lead to the same API. An address that does not answer must not delay a request,
//! so the next address is tried while the attempt at the first one continues.

use std::fmt;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use hyper::body::Incoming;
use hyper::client::conn::http1::{self, SendRequest};
use hyper::header::{HOST, HeaderValue};
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use kube::client::Body;
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use socket2::{SockRef, TcpKeepalive};
use talmox_clock::Clock;
use talmox_talos_api::{Address, Reach, Settings};
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tower_service::Service;

use super::trace;

/// Time between the starts of the connection attempts to two addresses. An earlier attempt continues while later ones
/// are made.
const HEAD_START: Duration = Duration::from_millis(250);

/// Time without data after which TCP keepalive checks the connection.
const ALIVE: Duration = Duration::from_secs(10);

/// Reason why the connection to one address failed.
#[derive(Debug, thiserror::Error)]
pub enum ApiDialError {
    #[error("cannot connect to {address}")]
    Connect { address: Address, source: io::Error },
    #[error("{address} did not answer in time")]
    Silent { address: Address },
    #[error("no TLS connection to {address}")]
    Tls { address: Address, source: io::Error },
}

/// Reason why a request got no answer.
#[derive(Debug, thiserror::Error)]
pub enum Unanswered {
    /// The request was not sent. Holds the error of each address.
    #[error("{}", all(failures))]
    Dial { failures: Vec<ApiDialError> },
    /// The request may have been carried out.
    #[error("the connection broke")]
    Cut(#[source] hyper::Error),
}

impl Unanswered {
    /// The error in few words, without the list of addresses.
    pub(super) fn brief(&self) -> String {
        let Self::Dial { failures } = self else { return self.to_string() };
        match failures.iter().find(|one| matches!(one, ApiDialError::Tls { .. })) {
            Some(found) => found.with_cause(),
            None if failures.len() > 1 => "no API server answers yet".to_owned(),
            None => self.to_string(),
        }
    }

    /// Whether no address accepted a TCP connection, so that the API server may still be starting.
    pub(super) fn is_closed(&self) -> bool {
        let Self::Dial { failures } = self else { return false };
        !failures.iter().any(|one| matches!(one, ApiDialError::Tls { .. }))
    }

    /// Outcome of the request, for its span.
    pub(super) fn outcome(&self) -> String {
        match self {
            Self::Dial { .. } => format!("not sent: {self}"),
            Self::Cut(_) => format!("no answer: {self}"),
        }
    }
}

fn all(failures: &[ApiDialError]) -> String {
    let texts: Vec<String> = failures.iter().map(ApiDialError::with_cause).collect();
    texts.join("; ")
}

impl ApiDialError {
    /// The text of the error and of its cause. [`Unanswered::Dial`] contains several errors, but an error can have only one
    /// source.
    fn with_cause(&self) -> String {
        match std::error::Error::source(self) {
            Some(source) => format!("{self}: {source}"),
            None => self.to_string(),
        }
    }
}

/// Connections to the Kubernetes API. Clones share the open connections.
#[derive(Clone)]
pub(super) struct Connection(Arc<Connections>);

struct Connections {
    endpoints: Vec<Endpoint>,
    clock: Clock,
    idle: Mutex<Vec<Live>>,
}

#[derive(Clone)]
struct Endpoint {
    address: Address,
    reach: Reach,
    tls: TlsConnector,
    limit: Duration,
}

struct Live {
    sender: SendRequest<Body>,
    host: HeaderValue,
}

impl Connection {
    pub(super) fn new(endpoints: &[Address], settings: &Settings, tls: ClientConfig) -> Self {
        let tls = TlsConnector::from(Arc::new(tls));
        let endpoints = endpoints.iter().map(|address| {
            Endpoint::new(address, &settings.reach, tls.clone(), settings.limits.connect)
        });
        Self(Arc::new(Connections {
            endpoints: endpoints.collect(),
            clock: settings.clock,
            idle: Mutex::default(),
        }))
    }
}

impl Connections {
    async fn send(
        self: Arc<Self>,
        request: Request<Body>,
    ) -> Result<Response<Incoming>, Unanswered> {
        let kept = self.take();
        let is_kept = kept.is_some();
        let live = match kept {
            Some(live) => live,
            None => self.dial().await?,
        };
        match self.send_on(live, request).await {
            Ok(response) => Ok(response),
            // hyper returned the request unsent, because the server had closed the connection.
            Err((_, Some(request))) if is_kept => {
                trace::resent(&request);
                let live = self.dial().await?;
                self.send_on(live, request).await.map_err(|(error, _)| Unanswered::Cut(error))
            }
            Err((error, _)) => Err(Unanswered::Cut(error)),
        }
    }

    async fn send_on(
        self: &Arc<Self>,
        mut live: Live,
        mut request: Request<Body>,
    ) -> Result<Response<Incoming>, (hyper::Error, Option<Request<Body>>)> {
        request.headers_mut().insert(HOST, live.host.clone());
        match live.sender.try_send_request(request).await {
            Ok(response) => {
                let this = Arc::clone(self);
                // The connection can be used again once the answer was read to its end.
                tokio::spawn(async move {
                    if live.sender.ready().await.is_ok() {
                        this.keep(live);
                    }
                });
                Ok(response)
            }
            Err(mut error) => {
                let request = error.take_message();
                Err((error.into_error(), request))
            }
        }
    }

    fn take(&self) -> Option<Live> {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        idle.retain(|live| !live.sender.is_closed());
        idle.pop()
    }

    fn keep(&self, live: Live) {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner).push(live);
    }

    async fn dial(&self) -> Result<Live, Unanswered> {
        let mut attempts = JoinSet::new();
        let mut start = Duration::ZERO;
        for endpoint in &self.endpoints {
            let (endpoint, clock) = (endpoint.clone(), self.clock);
            attempts.spawn(async move {
                clock.sleep(start).await;
                endpoint.dial().await
            });
            start += HEAD_START;
        }
        let mut failures = vec![];
        while let Some(attempt) = attempts.join_next().await {
            match attempt {
                Ok(Ok((stream, host))) => {
                    let made = http1::handshake(TokioIo::new(stream)).await;
                    let (sender, connection) = made.map_err(Unanswered::Cut)?;
                    // This task ends when the sender is dropped, or when the server closes the connection.
                    tokio::spawn(connection);
                    return Ok(Live { sender, host });
                }
                Ok(Err(failure)) => failures.push(failure),
                // A dial that panicked has no error to report.
                Err(_) => {}
            }
        }
        failures.sort_by_key(ToString::to_string);
        Err(Unanswered::Dial { failures })
    }
}

impl Endpoint {
    fn new(address: &Address, reach: &Reach, tls: TlsConnector, limit: Duration) -> Self {
        Self { address: address.clone(), reach: reach.clone(), tls, limit }
    }

    async fn dial(&self) -> Result<(TlsStream<TcpStream>, HeaderValue), ApiDialError> {
        let silent = |_| ApiDialError::Silent { address: self.address.clone() };
        let no_tls = |source| ApiDialError::Tls { address: self.address.clone(), source };
        let connecting = self.reach.connect(&self.address, self.limit).await;
        let socket = connecting.map_err(io::Error::from).map_err(|source| match source.kind() {
            io::ErrorKind::TimedOut => ApiDialError::Silent { address: self.address.clone() },
            _ => ApiDialError::Connect { address: self.address.clone(), source },
        })?;
        prepare(&socket).map_err(no_tls)?;
        let name = ServerName::try_from(self.address.host.clone());
        let name = name.map_err(|error| no_tls(io::Error::other(error)))?;
        let secured = timeout(self.limit, self.tls.connect(name, socket)).await.map_err(silent)?;
        let host = HeaderValue::try_from(self.address.to_string());
        let host = host.map_err(|error| no_tls(io::Error::other(error)))?;
        Ok((secured.map_err(no_tls)?, host))
    }
}

/// Sets socket options so that small requests are sent without delay, and a server that lost its power is detected.
fn prepare(socket: &TcpStream) -> io::Result<()> {
    let alive = TcpKeepalive::new().with_time(ALIVE).with_interval(ALIVE / 2);
    socket.set_nodelay(true)?;
    SockRef::from(socket).set_tcp_keepalive(&alive)
}

impl Service<Request<Body>> for Connection {
    type Response = Response<Incoming>;
    type Error = Unanswered;
    type Future =
        std::pin::Pin<Box<dyn Future<Output = Result<Response<Incoming>, Unanswered>> + Send>>;

    fn poll_ready(&mut self, _context: &mut Context<'_>) -> Poll<Result<(), Unanswered>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let span = trace::span(&request);
        Box::pin(trace::traced(span, Arc::clone(&self.0).send(request), Unanswered::outcome))
    }
}

impl fmt::Debug for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let addresses = self.0.endpoints.iter().map(|endpoint| endpoint.address.to_string());
        f.debug_list().entries(addresses).finish()
    }
}
