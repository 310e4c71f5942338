use std::fmt;
use std::future::poll_fn;
use std::io;
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use hyper::body::{Body as _, Incoming};
use hyper::client::conn::http1::{self, SendRequest};
use hyper::ext::ReasonPhrase;
use hyper_util::rt::TokioIo;
use rustls::pki_types::ServerName;
use talmox_clock::{Clock, Moment};
use talmox_net::{ConnectError, connect};
use talmox_values::Address;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;

use super::body::Outgoing;
use super::endpoint::Endpoint;
use crate::error::{Lost, NotSent};
use crate::tls::NotPinned;
use crate::untrusted::Untrusted;

/// Maximum size of an answer.
const MOST: usize = 64 << 20;

/// Open connection. It is used for one request at a time.
pub(super) type Connection = SendRequest<Outgoing>;

/// HTTP response.
pub(super) struct Reply {
    pub(super) status: u16,
    pub(super) reason: String,
    pub(super) body: Vec<u8>,
}

/// Failure of an exchange of request and response.
pub(super) enum ExchangeError {
    /// The connection failed before a byte of the request was sent.
    NotSent,
    Lost(Lost),
}

/// Opens a connection. No part of a request is sent, so every failure is safe to retry.
pub(super) async fn open(
    endpoint: &Endpoint,
    tls: &TlsConnector,
    limit: Duration,
) -> Result<Connection, NotSent> {
    let target = endpoint.target();
    let Address { host, port } = &target;
    let silent = |_| NotSent::Silent { host: host.clone(), port: *port };
    let tls_failed = |source: io::Error| {
        let (host, port) = (host.clone(), *port);
        if let Some(shown) = NotPinned::find(&source) {
            return NotSent::NotPinned { host, port, shown };
        }
        match Untrusted::find(&source) {
            Some((shown, source)) => {
                NotSent::Untrusted { host, port, shown, source: Box::new(source) }
            }
            None => NotSent::Tls { host, port, source },
        }
    };
    let socket = connect(&target, limit).await.map_err(|error| not_connected(error, &target))?;
    // Without `nodelay`, small requests would wait for further data (Nagle's algorithm).
    socket.set_nodelay(true).map_err(tls_failed)?;
    let name = ServerName::try_from(endpoint.host.clone())
        .map_err(|error| tls_failed(io::Error::other(error)))?;
    let secured = timeout(limit, tls.connect(name, socket)).await.map_err(silent)?;
    let stream = TokioIo::new(secured.map_err(tls_failed)?);
    let (sender, connection) =
        http1::handshake(stream).await.map_err(|error| tls_failed(io::Error::other(error)))?;
    // The driver ends when the sender is dropped or the server closes the connection. The sender also returns the error
    // of the driver.
    let _driver = tokio::spawn(connection);
    Ok(sender)
}

fn not_connected(error: ConnectError, target: &Address) -> NotSent {
    let Address { host, port } = target.clone();
    let is_resolved = !matches!(error, ConnectError::Resolve { .. });
    let source = io::Error::from(error);
    match source.kind() {
        io::ErrorKind::TimedOut => NotSent::Silent { host, port },
        _ if is_resolved => NotSent::Connect { host, port, source },
        _ => NotSent::Resolve { host, source },
    }
}

/// Sends a request and reads the answer.
///
/// `limit` applies to the start of the answer, and separately to the rest of the answer. It does not expire while an
/// upload still sends bytes.
pub(super) async fn exchange(
    connection: &mut Connection,
    request: hyper::Request<Outgoing>,
    sent: &Arc<AtomicU64>,
    limit: Duration,
) -> Result<Reply, ExchangeError> {
    if !matches!(timeout(limit, connection.ready()).await, Ok(Ok(()))) {
        return Err(ExchangeError::NotSent);
    }
    let mut answer = pin!(connection.try_send_request(request));
    let answer = loop {
        let before = sent.load(Ordering::Relaxed);
        match timeout(limit, &mut answer).await {
            Ok(answer) => break answer,
            Err(_) if sent.load(Ordering::Relaxed) != before => {}
            Err(_) => return Err(ExchangeError::Lost(Lost::Silent)),
        }
    };
    // hyper returns the request only if it was never sent.
    let response = answer.map_err(|mut error| match error.take_message() {
        Some(_request) => ExchangeError::NotSent,
        None => ExchangeError::Lost(Lost::Cut(error.into_error().into())),
    })?;
    let status = response.status();
    let reason = match response.extensions().get::<ReasonPhrase>() {
        Some(reason) => String::from_utf8_lossy(reason.as_bytes()).into_owned(),
        None => status.canonical_reason().unwrap_or_default().to_owned(),
    };
    let body = timeout(limit, collect(response.into_body())).await;
    let body = body.map_err(|_| ExchangeError::Lost(Lost::Silent))?.map_err(ExchangeError::Lost)?;
    Ok(Reply { status: status.as_u16(), reason, body })
}

async fn collect(mut body: Incoming) -> Result<Vec<u8>, Lost> {
    let mut all = vec![];
    while let Some(frame) = poll_fn(|context| Pin::new(&mut body).poll_frame(context)).await {
        let frame = frame.map_err(|error| Lost::Cut(error.into()))?;
        all.extend_from_slice(frame.data_ref().map(AsRef::as_ref).unwrap_or_default());
        if all.len() > MOST {
            return Err(Lost::Cut("the answer is too large".into()));
        }
    }
    Ok(all)
}

/// Idle connections.
pub(super) struct Pool {
    idle: Mutex<Vec<(Connection, Moment)>>,
    /// Real clock, because the time for which a server keeps a connection open is not scaled.
    clock: Clock,
}

impl Default for Pool {
    fn default() -> Self {
        Self { idle: Mutex::default(), clock: Clock::real() }
    }
}

impl Pool {
    /// The connection that was used last, unless it was idle for longer than `age`. Servers close idle connections, and
    /// a request that is sent at that moment is lost.
    pub(super) fn take(&self, age: Duration) -> Option<Connection> {
        let now = self.clock.moment();
        let mut idle = self.idle.lock().expect("invariant: no code panics while it holds the lock");
        idle.retain(|(connection, since)| !connection.is_closed() && now.since(*since) < KEEP);
        let newest = idle.last().is_some_and(|(_, since)| now.since(*since) <= age);
        if newest { idle.pop().map(|(connection, _)| connection) } else { None }
    }

    pub(super) fn put(&self, connection: Connection) {
        if !connection.is_closed() {
            let mut idle =
                self.idle.lock().expect("invariant: no code panics while it holds the lock");
            idle.push((connection, self.clock.moment()));
        }
    }
}

impl fmt::Debug for Pool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Pool")
    }
}

/// Maximum idle time of a connection.
const KEEP: Duration = Duration::from_secs(4);
