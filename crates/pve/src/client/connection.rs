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

/// The largest answer, in bytes.
const MOST: usize = 64 << 20;

/// A connection that requests can be sent on, one after the other.
pub(super) type Connection = SendRequest<Outgoing>;

/// What came back.
pub(super) struct Reply {
    pub(super) status: u16,
    pub(super) reason: String,
    pub(super) body: Vec<u8>,
}

/// How an exchange went wrong.
pub(super) enum Broken {
    /// Before a byte of the request went out.
    NotSent,
    Lost(Lost),
}

/// Connects and shakes hands. Nothing of a request is sent here, so whatever fails is safe to try
/// again.
pub(super) async fn open(
    endpoint: &Endpoint,
    tls: &TlsConnector,
    limit: Duration,
) -> Result<Connection, NotSent> {
    let target = endpoint.target();
    let Address { host, port } = &target;
    let silent = |_| NotSent::Silent { host: host.clone(), port: *port };
    let failed = |source| match NotPinned::find(&source) {
        Some(shown) => NotSent::NotPinned { host: host.clone(), port: *port, shown },
        None => NotSent::Tls { host: host.clone(), port: *port, source },
    };
    let socket = connect(&target, limit).await.map_err(|error| not_connected(error, &target))?;
    // Small requests must not wait for more to come.
    socket.set_nodelay(true).map_err(failed)?;
    let name = ServerName::try_from(endpoint.host.clone())
        .map_err(|error| failed(io::Error::other(error)))?;
    let secured = timeout(limit, tls.connect(name, socket)).await.map_err(silent)?;
    let stream = TokioIo::new(secured.map_err(failed)?);
    let (sender, connection) =
        http1::handshake(stream).await.map_err(|error| failed(io::Error::other(error)))?;
    // Ends when the sender is dropped or the server hangs up; the sender gets its errors as well.
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
/// `limit` is for the answer to begin, and then for it to end. Bytes of an upload that still go out
/// count as life.
pub(super) async fn exchange(
    connection: &mut Connection,
    request: hyper::Request<Outgoing>,
    sent: &Arc<AtomicU64>,
    limit: Duration,
) -> Result<Reply, Broken> {
    if !matches!(timeout(limit, connection.ready()).await, Ok(Ok(()))) {
        return Err(Broken::NotSent);
    }
    let mut answer = pin!(connection.try_send_request(request));
    let answer = loop {
        let before = sent.load(Ordering::Relaxed);
        match timeout(limit, &mut answer).await {
            Ok(answer) => break answer,
            Err(_) if sent.load(Ordering::Relaxed) != before => {}
            Err(_) => return Err(Broken::Lost(Lost::Silent)),
        }
    };
    // What comes back untouched never went out.
    let response = answer.map_err(|mut error| match error.take_message() {
        Some(_request) => Broken::NotSent,
        None => Broken::Lost(Lost::Cut(error.into_error().into())),
    })?;
    let status = response.status();
    let reason = match response.extensions().get::<ReasonPhrase>() {
        Some(reason) => String::from_utf8_lossy(reason.as_bytes()).into_owned(),
        None => status.canonical_reason().unwrap_or_default().to_owned(),
    };
    let body = timeout(limit, collect(response.into_body())).await;
    let body = body.map_err(|_| Broken::Lost(Lost::Silent))?.map_err(Broken::Lost)?;
    Ok(Reply { status: status.as_u16(), reason, body })
}

async fn collect(mut body: Incoming) -> Result<Vec<u8>, Lost> {
    let mut all = vec![];
    while let Some(frame) = poll_fn(|context| Pin::new(&mut body).poll_frame(context)).await {
        let frame = frame.map_err(|error| Lost::Cut(error.into()))?;
        all.extend_from_slice(frame.data_ref().map(AsRef::as_ref).unwrap_or_default());
        if all.len() > MOST {
            return Err(Lost::Cut("the answer is too big".into()));
        }
    }
    Ok(all)
}

/// Connections that wait for their next request.
pub(super) struct Pool {
    idle: Mutex<Vec<(Connection, Moment)>>,
    /// How long a server keeps a connection open does not scale.
    clock: Clock,
}

impl Default for Pool {
    fn default() -> Self {
        Self { idle: Mutex::default(), clock: Clock::real() }
    }
}

impl Pool {
    /// The one that was used last, if that is not longer ago than `age`: servers hang up on idle
    /// ones, and a request that crosses with that is lost.
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

/// A connection is kept at most this long.
const KEEP: Duration = Duration::from_secs(4);
