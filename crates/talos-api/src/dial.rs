//! Opening a connection, up to the first word of the other side.
//!
//! In TLS 1.3 a server judges our certificate after we are through with the handshake. A gRPC
//! server speaks first, so its first word, or its alert, is waited for: whatever stands in the way
//! is known before anything is asked.

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

/// Why there is no connection. Nothing was asked yet, so trying again is safe.
#[derive(Debug, thiserror::Error)]
pub enum DialError {
    #[error("cannot find the address of {host}")]
    Resolve { host: String, source: io::Error },
    #[error("cannot connect to {target}")]
    Connect { target: Address, source: io::Error },
    /// Somebody took the connection, and said nothing.
    #[error("{target} did not answer in time")]
    Silent { target: Address },
    /// We do not accept its certificate.
    #[error("the certificate of {target} is not accepted")]
    Certificate { target: Address, source: rustls::Error },
    #[error("{target} does not have the key that was pinned")]
    OtherKey { target: Address },
    /// It does not accept ours, or wants one.
    #[error("{target} refused the connection: {}", alert_text(*alert))]
    Refused { target: Address, alert: AlertDescription },
    /// A node does this while its API restarts, and while it shuts down.
    #[error("{target} closed the connection before it answered")]
    HungUp { target: Address },
    #[error("no TLS connection to {target}")]
    Tls { target: Address, source: io::Error },
}

impl DialError {
    /// Whether a node fails this way for a second or two while its API restarts, as it does between maintenance mode
    /// and its config: 1.13 closes connections, 1.12 refuses the port, and a server without a certificate yet
    /// reports an internal error.
    pub fn is_restart(&self) -> bool {
        match self {
            Self::HungUp { .. } => true,
            Self::Connect { source, .. } => source.kind() == io::ErrorKind::ConnectionRefused,
            Self::Refused { alert, .. } => *alert == AlertDescription::InternalError,
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
        AlertDescription::CertificateRequired => "it wants a client certificate",
        AlertDescription::UnknownCA => "it does not know the authority of our certificate",
        AlertDescription::CertificateExpired => {
            "by its clock our certificate is no longer, or not yet, valid"
        }
        AlertDescription::BadCertificate => "it does not accept our certificate",
        _ => "it broke off the handshake",
    }
}

/// All that is needed to open a connection, again and again.
#[derive(Clone)]
pub(crate) struct Dialer {
    pub(crate) address: Address,
    /// Where the connection goes, for messages.
    target: Address,
    reach: Reach,
    tls: TlsConnector,
    limit: Duration,
}

/// An open connection, and the certificate that the other side showed.
pub(crate) struct Dialed {
    pub(crate) stream: Stream,
    pub(crate) leaf: Option<CertificateDer<'static>>,
}

/// How a dial ended, with the certificate that was seen if the handshake came that far.
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
    /// `limit` is real time, for each step: bytes cross a real network.
    pub(crate) fn new(address: Address, reach: &Reach, tls: ClientConfig, limit: Duration) -> Self {
        let (target, reach) = (reach.target(&address), reach.clone());
        Self { address, target, reach, tls: TlsConnector::from(Arc::new(tls)), limit }
    }

    pub(crate) async fn dial(&self) -> Result<Dialed, Failed> {
        let socket = self.connect().await?;
        self.secure(socket).await
    }

    /// The second half of dialling: TLS, and the first word.
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

    /// The first half of dialling: somebody takes the connection.
    pub(crate) async fn connect(&self) -> Result<TcpStream, DialError> {
        let connecting = self.reach.connect(&self.address, self.limit).await;
        connecting.map_err(|error| match error {
            ConnectError::Resolve { host, source } => DialError::Resolve { host, source },
            error => {
                DialError::Connect { target: self.target.clone(), source: io::Error::from(error) }
            }
        })
    }

    pub(crate) fn silent(&self) -> DialError {
        DialError::Silent { target: self.target.clone() }
    }

    pub(crate) fn hung_up(&self) -> DialError {
        DialError::HungUp { target: self.target.clone() }
    }

    /// Nobody took the connection in time.
    pub(crate) fn unconnected(&self) -> DialError {
        let source = io::ErrorKind::TimedOut.into();
        DialError::Connect { target: self.target.clone(), source }
    }

    /// What TLS says comes wrapped in an error of the socket.
    fn explain(&self, source: io::Error) -> DialError {
        let target = self.target.clone();
        match source.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>()) {
            Some(rustls::Error::AlertReceived(alert)) => {
                DialError::Refused { target, alert: *alert }
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

/// Small requests must not wait for more to come, and a node that lost its power must be missed.
///
/// The kernel asks, not HTTP/2: a Talos node takes pings that come more often than every five
/// minutes for abuse, and hangs up.
fn prepare(socket: &TcpStream) -> io::Result<()> {
    let alive = TcpKeepalive::new().with_time(ALIVE).with_interval(ALIVE / 2);
    socket.set_nodelay(true)?;
    SockRef::from(socket).set_tcp_keepalive(&alive)
}

/// After so much silence the other side is asked whether it is still there.
const ALIVE: Duration = Duration::from_secs(10);

/// A TLS connection whose first bytes were read already.
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
    async fn a_silent_node_is_asked_whether_it_is_there() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let socket = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        prepare(&socket).unwrap();
        assert!(SockRef::from(&socket).keepalive().unwrap());
        assert!(socket.nodelay().unwrap());
    }
}
