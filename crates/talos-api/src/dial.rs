//! Opening of a connection, until the first data from the node arrives.
//!
//! In TLS 1.3 the handshake is complete for the client before the server checks the client certificate. A gRPC server
//! sends data first, so the dialer waits for the first data or the TLS alert. Therefore every problem of the connection
//! is detected before a request is sent.

use std::future::poll_fn;
use std::io;
use std::pin::Pin as Pinned;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{AlertDescription, CertificateError, ClientConfig};
use socket2::{SockRef, TcpKeepalive};
use talmox_net::{ConnectError, Reach};
use talmox_values::Address;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

/// Reason why a connection could not be opened. No request was sent, so a retry is safe.
#[derive(Debug, thiserror::Error)]
pub enum DialError {
    #[error("cannot find the address of {host}")]
    Resolve { host: String, source: io::Error },
    #[error("cannot connect to {target}")]
    Connect { target: Address, source: io::Error },
    /// The TCP connection was accepted, but no data followed.
    #[error("{target} did not answer in time")]
    Silent { target: Address },
    /// The client does not accept the certificate of the node.
    #[error("the certificate of {target} is not accepted")]
    Certificate { target: Address, source: rustls::Error },
    #[error("{target} does not have the pinned key")]
    OtherKey { target: Address },
    /// The node does not accept the client certificate, or requires one.
    #[error("{target} rejected the connection: {}", alert_text(*alert))]
    Rejected { target: Address, alert: AlertDescription },
    /// The node closed the connection. Nodes do this while their API restarts and while they shut down.
    #[error("{target} closed the connection before it answered")]
    HungUp { target: Address },
    #[error("cannot establish a TLS connection to {target}")]
    Tls { target: Address, source: io::Error },
}

impl DialError {
    /// Whether the error is typical of a node whose API restarts. The API restarts for a second or two when a node in
    /// maintenance mode receives its config. 1.13 closes connections, 1.12 rejects TCP connections, and a server that
    /// has no certificate yet sends the alert `internal_error`.
    pub fn is_restart(&self) -> bool {
        match self {
            Self::HungUp { .. } => true,
            Self::Connect { source, .. } => source.kind() == io::ErrorKind::ConnectionRefused,
            Self::Rejected { alert, .. } => *alert == AlertDescription::InternalError,
            _ => false,
        }
    }
}

fn is_hung_up(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::UnexpectedEof
            | io::ErrorKind::ConnectionReset
            | io::ErrorKind::ConnectionAborted
            | io::ErrorKind::BrokenPipe
    )
}

fn alert_text(alert: AlertDescription) -> &'static str {
    match alert {
        AlertDescription::CertificateRequired => "it requires a client certificate",
        AlertDescription::UnknownCA => "it does not trust the CA of the client certificate",
        AlertDescription::CertificateExpired => {
            "by its clock the client certificate is not valid yet, or expired"
        }
        AlertDescription::BadCertificate => "it does not accept the client certificate",
        _ => "it aborted the TLS handshake",
    }
}

/// Settings for opening connections to one node.
#[derive(Clone)]
pub(crate) struct Dialer {
    /// Address of the node. Errors name this address and not that of the reach map, because the user knows the node by it.
    pub(crate) address: Address,
    reach: Reach,
    tls: TlsConnector,
    limit: Duration,
}

/// Open connection, with the certificate of the node.
pub(crate) struct Dialed {
    pub(crate) stream: Stream,
    pub(crate) leaf: Option<CertificateDer<'static>>,
}

/// Failed connection, with the certificate of the node, if the node presented one before the failure.
pub(crate) struct Failed {
    pub(crate) error: DialError,
    pub(crate) leaf: Option<CertificateDer<'static>>,
}

impl From<DialError> for Failed {
    fn from(error: DialError) -> Self {
        Self { error, leaf: None }
    }
}

impl Dialer {
    /// Creates a dialer. `limit` is the maximum real time of each step, because the network is real.
    pub(crate) fn new(address: Address, reach: &Reach, tls: ClientConfig, limit: Duration) -> Self {
        Self { address, reach: reach.clone(), tls: TlsConnector::from(Arc::new(tls)), limit }
    }

    pub(crate) async fn dial(&self) -> Result<Dialed, Failed> {
        let socket = self.connect().await?;
        self.secure(socket).await
    }

    /// Second part of connecting: TLS and the first data from the node.
    pub(crate) async fn secure(&self, socket: TcpStream) -> Result<Dialed, Failed> {
        let broken = |source| self.explain(source);
        prepare(&socket).map_err(broken)?;
        let name = ServerName::try_from(self.address.host.clone())
            .map_err(|error| broken(io::Error::other(error)))?;
        let secured = timeout(self.limit, self.tls.connect(name, socket)).await;
        let mut tls = secured.map_err(|_| self.silent())?.map_err(broken)?;
        let leaf = tls.get_ref().1.peer_certificates().and_then(|chain| chain.first());
        let leaf = leaf.map(|leaf| leaf.clone().into_owned());
        let mut word = [0; 1024];
        let mut buffer = ReadBuf::new(&mut word);
        let first = poll_fn(|context| Pinned::new(&mut tls).poll_read(context, &mut buffer));
        let error = match timeout(self.limit, first).await {
            Err(_) => self.silent(),
            Ok(Err(source)) => self.explain(source),
            Ok(Ok(())) if buffer.filled().is_empty() => {
                self.explain(io::ErrorKind::UnexpectedEof.into())
            }
            Ok(Ok(())) => {
                let early = buffer.filled().to_vec();
                return Ok(Dialed { stream: Stream { tls, early, taken: 0 }, leaf });
            }
        };
        Err(Failed { error, leaf })
    }

    /// First part of connecting: TCP.
    pub(crate) async fn connect(&self) -> Result<TcpStream, DialError> {
        let connecting = self.reach.connect(&self.address, self.limit).await;
        connecting.map_err(|error| match error {
            ConnectError::Resolve { host, source } => DialError::Resolve { host, source },
            error => {
                DialError::Connect { target: self.address.clone(), source: io::Error::from(error) }
            }
        })
    }

    pub(crate) fn silent(&self) -> DialError {
        DialError::Silent { target: self.address.clone() }
    }

    pub(crate) fn hung_up(&self) -> DialError {
        DialError::HungUp { target: self.address.clone() }
    }

    /// Error for a TCP connection that was not accepted in time.
    pub(crate) fn unconnected(&self) -> DialError {
        let source = io::ErrorKind::TimedOut.into();
        DialError::Connect { target: self.address.clone(), source }
    }

    /// Converts a socket error. If it contains a TLS error, the result is based on the TLS error.
    fn explain(&self, source: io::Error) -> DialError {
        let target = self.address.clone();
        match source.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>()) {
            Some(rustls::Error::AlertReceived(alert)) => {
                DialError::Rejected { target, alert: *alert }
            }
            Some(rustls::Error::InvalidCertificate(
                CertificateError::ApplicationVerificationFailure,
            )) => DialError::OtherKey { target },
            Some(error @ rustls::Error::InvalidCertificate(_)) => {
                DialError::Certificate { target, source: error.clone() }
            }
            _ if is_hung_up(&source) => DialError::HungUp { target },
            _ => DialError::Tls { target, source },
        }
    }
}

/// Disables Nagle's algorithm, so that small requests are sent immediately. Enables keepalive, so that the loss of a
/// node without power is detected.
///
/// The kernel sends the keepalive probes. HTTP/2 pings are not used: a Talos node treats pings more often than every
/// five minutes as abuse, and closes the connection.
fn prepare(socket: &TcpStream) -> io::Result<()> {
    let alive = TcpKeepalive::new().with_time(ALIVE).with_interval(ALIVE / 2);
    socket.set_nodelay(true)?;
    SockRef::from(socket).set_tcp_keepalive(&alive)
}

/// Idle time before the first keepalive probe.
const ALIVE: Duration = Duration::from_secs(10);

/// TLS connection whose first bytes were already read.
pub(crate) struct Stream {
    tls: TlsStream<TcpStream>,
    early: Vec<u8>,
    taken: usize,
}

impl AsyncRead for Stream {
    fn poll_read(
        mut self: Pinned<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let early = &self.early[self.taken..];
        if early.is_empty() {
            return Pinned::new(&mut self.tls).poll_read(context, buffer);
        }
        let count = early.len().min(buffer.remaining());
        buffer.put_slice(&early[..count]);
        self.taken += count;
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Stream {
    fn poll_write(
        mut self: Pinned<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pinned::new(&mut self.tls).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pinned<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pinned::new(&mut self.tls).poll_flush(context)
    }

    fn poll_shutdown(
        mut self: Pinned<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<io::Result<()>> {
        Pinned::new(&mut self.tls).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::net::TcpListener;

    #[tokio::test]
    async fn connections_have_keepalive_enabled() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let socket = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        prepare(&socket).unwrap();
        assert!(SockRef::from(&socket).keepalive().unwrap());
        assert!(socket.nodelay().unwrap());
    }
}
