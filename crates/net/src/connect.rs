//! TCP connections.

use std::io;
use std::time::Duration;

use talmox_values::Address;
use tokio::net::{TcpStream, lookup_host};
use tokio::time::timeout;

/// Reason why a TCP connection could not be opened.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    /// The reach map is closed and has no entry for the address. No name was resolved, and no packet was sent.
    #[error("no route to {address}: the reach map has no entry for it")]
    NoRoute { address: Address },
    #[error("cannot find the address of {host}")]
    Resolve { host: String, source: io::Error },
    #[error("cannot connect")]
    Connect { source: io::Error },
}

impl From<ConnectError> for io::Error {
    fn from(error: ConnectError) -> Self {
        match error {
            ConnectError::NoRoute { .. } => Self::new(io::ErrorKind::NetworkUnreachable, error),
            ConnectError::Resolve { source, .. } | ConnectError::Connect { source } => source,
        }
    }
}

/// Opens a TCP connection directly, without a reach map. `limit` applies to the resolution of the name, and to each of
/// its addresses.
pub async fn connect(address: &Address, limit: Duration) -> Result<TcpStream, ConnectError> {
    let Address { host, port } = address;
    let found = timeout(limit, lookup_host((host.as_str(), *port))).await;
    let found = found
        .unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))
        .map_err(|source| ConnectError::Resolve { host: host.clone(), source })?;
    let mut failure = io::ErrorKind::NotFound.into();
    for address in found {
        match timeout(limit, TcpStream::connect(address)).await {
            Ok(Ok(socket)) => return Ok(socket),
            Ok(Err(source)) => failure = source,
            Err(_) => failure = io::ErrorKind::TimedOut.into(),
        }
    }
    Err(ConnectError::Connect { source: failure })
}
