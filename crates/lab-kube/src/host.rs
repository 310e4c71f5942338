//! Interface to the machine that an API server runs on. The crate that simulates machines implements it.

use std::fmt;
use std::future::Future;
use std::io;
use std::pin::Pin;

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};

/// Where the connections to an API server come from.
pub trait Connections: Send + 'static {
    type Stream: AsyncRead + AsyncWrite + Send + Unpin + 'static;

    /// The next connection; none once there are no more.
    fn next(&mut self) -> impl Future<Output = Option<io::Result<Self::Stream>>> + Send;
}

/// The machine that an API server runs on.
pub trait ServerHost: fmt::Debug + Send + Sync {
    /// Called before each request: lets happen what is to happen before it, and says what becomes of it.
    fn receive<'r>(&'r self, method: &'r str, path: &'r str) -> Receiving<'r>;
}

/// The future of [`ServerHost::receive`].
pub type Receiving<'r> = Pin<Box<dyn Future<Output = RequestFate> + Send + 'r>>;

/// What becomes of a request.
pub enum RequestFate {
    /// It is answered. Called when all is done: lets happen what is to happen then. False where no answer is sent any
    /// more.
    Answered(Box<dyn FnOnce() -> bool + Send>),
    Refused {
        status: u16,
        message: String,
    },
    /// The connection breaks.
    Cut,
}

impl fmt::Debug for RequestFate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Answered(_) => f.write_str("Answered"),
            Self::Refused { status, message } => write!(f, "Refused({status}, {message:?})"),
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
