use std::io::Write as _;
use std::net::TcpStream;
use std::sync::Arc;

use rustls::crypto::aws_lc_rs;
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};
use talmox_tls::ByLeaf;

use super::{FetchError, Stream};

/// Shakes hands with a server. Without `verify` any certificate will do.
pub(super) fn connect(
    socket: TcpStream,
    host: &str,
    roots: &RootCertStore,
    verify: bool,
) -> Result<Box<dyn Stream>, FetchError> {
    let provider = Arc::new(aws_lc_rs::default_provider());
    let builder = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(std::io::Error::other)?;
    let config = if verify {
        builder.with_root_certificates(roots.clone()).with_no_client_auth()
    } else {
        let anyone = ByLeaf::anyone();
        builder.dangerous().with_custom_certificate_verifier(anyone).with_no_client_auth()
    };
    let certificate = || FetchError::Certificate { host: host.to_owned() };
    let name = host.trim_matches(['[', ']']).to_owned();
    let name = ServerName::try_from(name).map_err(|_| certificate())?;
    let connection =
        ClientConnection::new(Arc::new(config), name).map_err(std::io::Error::other)?;
    let mut stream = StreamOwned::new(connection, socket);
    // The handshake happens with the first byte; better now, while its errors can be told apart.
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
