use std::io::Write as _;
use std::net::TcpStream;
use std::sync::Arc;

use rustls::pki_types::ServerName;
use rustls::{ClientConnection, RootCertStore, StreamOwned};
use talmox_net::{ByLeaf, tls};

use super::{FetchError, Stream};

/// Performs a TLS handshake. Without `verify`, any certificate is accepted.
pub(super) fn connect(
    socket: TcpStream,
    host: &str,
    roots: &RootCertStore,
    verify: bool,
) -> Result<Box<dyn Stream>, FetchError> {
    let builder = tls::client().map_err(std::io::Error::other)?;
    let config = if verify {
        builder.with_root_certificates(roots.clone()).with_no_client_auth()
    } else {
        let anyone = ByLeaf::anyone();
        builder.dangerous().with_custom_certificate_verifier(anyone).with_no_client_auth()
    };
    let certificate = || FetchError::Certificate { host: host.to_owned() };
    let name = ServerName::try_from(host.to_owned()).map_err(|_| certificate())?;
    let connection =
        ClientConnection::new(Arc::new(config), name).map_err(std::io::Error::other)?;
    let mut stream = StreamOwned::new(connection, socket);
    // rustls performs the handshake with the first byte that is sent. Completing the handshake here distinguishes its errors
    // from later errors.
    match stream.conn.complete_io(&mut stream.sock) {
        Ok(_) => {}
        Err(error) => {
            let inner = error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>());
            let wrong = matches!(inner, Some(rustls::Error::InvalidCertificate(_)));
            return Err(if wrong { certificate() } else { FetchError::Broken(error) });
        }
    }
    stream.flush()?;
    Ok(Box::new(stream))
}
