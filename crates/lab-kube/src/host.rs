//! Interface to the machine that an API server runs on. The crate that simulates machines implements this interface.

use std::fmt;
use std::future::Future;
use std::io;
use std::pin::Pin;

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};

/// Source of the connections to an API server.
pub trait Connections: Send + 'static {
    type Stream: AsyncRead + AsyncWrite + Send + Unpin + 'static;

    /// Waits for the next connection; `None` if there will be no more connections.
    fn next(&mut self) -> impl Future<Output = Option<io::Result<Self::Stream>>> + Send;
}

/// Machine that an API server runs on.
pub trait ServerHost: fmt::Debug + Send + Sync {
    /// Called before each request. Applies the faults that are due before the request, and decides whether the request is
    /// answered.
    fn receive<'r>(&'r self, method: &'r str, path: &'r str) -> Receiving<'r>;
}

/// Future that [`ServerHost::receive`] returns.
pub type Receiving<'r> = Pin<Box<dyn Future<Output = RequestFate> + Send + 'r>>;

/// Decision about how an API request is handled.
pub enum RequestFate {
    /// The request is answered. The function is called when the answer is ready. It applies the faults that are due after the
    /// request, and returns false if the answer must not be sent.
    Answered(Box<dyn FnOnce() -> bool + Send>),
    Rejected {
        status: u16,
        message: String,
    },
    /// The connection of the request is closed without an answer.
    Cut,
}

impl fmt::Debug for RequestFate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Answered(_) => f.write_str("Answered"),
            Self::Rejected { status, message } => write!(f, "Rejected({status}, {message:?})"),
            Self::Cut => f.write_str("Cut"),
        }
    }
}

impl Connections for TcpListener {
    type Stream = TcpStream;

    async fn next(&mut self) -> Option<io::Result<TcpStream>> {
        Some(self.accept().await.map(|(socket, _)| socket))
    }
}
