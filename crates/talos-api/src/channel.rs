//! HTTP/2 connection to one node. The first request opens the connection. If it was lost, the next request opens
//! another one.
//!
//! Every node is contacted directly: no request is routed through another node.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};

use hyper::body::Incoming;
use hyper::client::conn::http2::{self, SendRequest};
use hyper::{Request, Response, Uri};
use hyper_util::rt::{TokioExecutor, TokioIo};
use talmox_values::Address;
use tokio::sync::Mutex;
use tonic::body::Body;
use tonic::codegen::{BoxFuture, Service};

use crate::dial::{DialError, Dialer, Stream};
use crate::trace;

/// Flow-control window: bytes that the node may send before the client reads them.
const WINDOW: u32 = 1 << 20;

/// Failure of a call that the node did not answer.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Unanswered {
    #[error(transparent)]
    Dial(Arc<DialError>),
    #[error("the connection was lost")]
    Cut(#[source] hyper::Error),
}

/// gRPC channel to one node. Clones share the connection.
#[derive(Clone)]
pub(crate) struct Channel(Arc<Inner>);

struct Inner {
    dialer: Dialer,
    origin: Uri,
    live: Mutex<Option<SendRequest<Body>>>,
    /// Whether the node accepted the TCP connection that is being opened.
    is_taken: AtomicBool,
}

impl Channel {
    /// Creates a channel without connecting.
    pub(crate) fn new(dialer: Dialer) -> Self {
        let uri = Uri::builder().scheme("https").authority(dialer.address.to_string());
        let origin = uri.path_and_query("/").build().unwrap_or_default();
        let (live, is_taken) = (Mutex::default(), AtomicBool::default());
        Self(Arc::new(Inner { dialer, origin, live, is_taken }))
    }

    /// Creates a channel on an open connection.
    pub(crate) async fn over(dialer: Dialer, stream: Stream) -> Result<Self, hyper::Error> {
        let channel = Self::new(dialer);
        *channel.0.live.lock().await = Some(handshake(stream).await?);
        Ok(channel)
    }

    /// Opens a connection if there is none.
    pub(crate) async fn open(&self) -> Result<(), Unanswered> {
        self.0.sender().await.map(|_| ())
    }

    /// Error for a connection that could not be opened in time.
    pub(crate) fn unopened(&self) -> DialError {
        let Inner { dialer, is_taken, .. } = &*self.0;
        if is_taken.load(Ordering::Relaxed) { dialer.silent() } else { dialer.unconnected() }
    }

    pub(crate) fn address(&self) -> &Address {
        &self.0.dialer.address
    }

    pub(crate) fn origin(&self) -> Uri {
        self.0.origin.clone()
    }
}

impl Inner {
    async fn sender(&self) -> Result<SendRequest<Body>, Unanswered> {
        let mut live = self.live.lock().await;
        if let Some(sender) = live.as_mut()
            && !sender.is_closed()
            && sender.ready().await.is_ok()
        {
            return Ok(sender.clone());
        }
        let unanswered = |error| Unanswered::Dial(Arc::new(error));
        self.is_taken.store(false, Ordering::Relaxed);
        let socket = self.dialer.connect().await.map_err(unanswered)?;
        self.is_taken.store(true, Ordering::Relaxed);
        let secured = self.dialer.secure(socket).await;
        let dialed = secured.map_err(|failed| unanswered(failed.error))?;
        // No request was sent yet, so this is not reported as a lost connection. After a lost connection the caller
        // would assume that an apply may have been executed.
        let sender =
            handshake(dialed.stream).await.map_err(|_| unanswered(self.dialer.hung_up()))?;
        Ok(live.insert(sender).clone())
    }

    async fn send(&self, request: Request<Body>) -> Result<Response<Incoming>, Unanswered> {
        let mut sender = self.sender().await?;
        match sender.try_send_request(request).await {
            Ok(response) => Ok(response),
            Err(mut error) => match error.take_message() {
                // hyper returns the request if it was never sent, because the node had closed the connection.
                Some(request) => {
                    trace::resent(&self.dialer.address);
                    *self.live.lock().await = None;
                    let mut sender = self.sender().await?;
                    sender.send_request(request).await.map_err(Unanswered::Cut)
                }
                None => Err(Unanswered::Cut(error.into_error())),
            },
        }
    }
}

async fn handshake(stream: Stream) -> Result<SendRequest<Body>, hyper::Error> {
    let (sender, connection) = http2::Builder::new(TokioExecutor::new())
        .initial_stream_window_size(WINDOW)
        .initial_connection_window_size(4 * WINDOW)
        .handshake(TokioIo::new(stream))
        .await?;
    // The driver ends when the senders are dropped or the node closes the connection. The senders also return the error
    // of the driver.
    let _driver = tokio::spawn(connection);
    Ok(sender)
}

impl Service<Request<Body>> for Channel {
    type Response = Response<Incoming>;
    type Error = Unanswered;
    type Future = BoxFuture<Self::Response, Self::Error>;

    fn poll_ready(&mut self, _context: &mut Context<'_>) -> Poll<Result<(), Unanswered>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let inner = Arc::clone(&self.0);
        Box::pin(async move { inner.send(request).await })
    }
}

impl fmt::Debug for Channel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Channel({})", self.address())
    }
}
