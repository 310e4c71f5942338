use std::io::Write as _;
use std::net::TcpStream;
use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, aws_lc_rs, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{
    ClientConfig, ClientConnection, DigitallySignedStruct, RootCertStore, SignatureScheme,
    StreamOwned,
};

use super::{FetchError, Stream};

/// Shakes hands with a server. Without `verify` any certificate will do.
pub(super) fn connect(
    socket: TcpStream,
    host: &str,
    roots: &RootCertStore,
    verify: bool,
) -> Result<Box<dyn Stream>, FetchError> {
    let provider = Arc::new(aws_lc_rs::default_provider());
    let builder = ClientConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .map_err(std::io::Error::other)?;
    let config = if verify {
        builder.with_root_certificates(roots.clone()).with_no_client_auth()
    } else {
        let anyone = Arc::new(Anyone(provider));
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

/// Believes every certificate, but still wants its key to be there.
#[derive(Debug)]
struct Anyone(Arc<CryptoProvider>);

impl ServerCertVerifier for Anyone {
    fn verify_server_cert(
        &self,
        _end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(message, cert, dss, &self.0.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(message, cert, dss, &self.0.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}
