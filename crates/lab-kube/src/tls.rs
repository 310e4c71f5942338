//! TLS of the API server. Client certificates are optional.
//!
//! The handshake accepts every client certificate. The server verifies the certificate afterwards, so that a client with an
//! invalid certificate gets status 401 instead of a failed handshake.

use std::sync::Arc;
use std::time::Duration;

use rustls::client::danger::HandshakeSignatureValid;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, UnixTime};
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{DigitallySignedStruct, DistinguishedName, ServerConfig, SignatureScheme};
use talmox_net::{authorities, tls};
use talmox_talos_config::pki::{AltName, Authority, LeafRequest, Name, Usage};
use talmox_talos_config::random::Randomness;

const BACKDATED: Duration = Duration::from_secs(10);
const LIFETIME: Duration = Duration::from_hours(365 * 24);

/// TLS settings of a listener, with the CA that verifies client certificates.
#[derive(Clone, Debug)]
pub struct KubeTls {
    pub(super) config: Arc<ServerConfig>,
    clients: Arc<dyn ClientCertVerifier>,
}

impl KubeTls {
    /// Issues a server certificate for these names. Client certificates are accepted if the same CA signed them.
    pub fn issue(
        authority: &Authority,
        alt_names: Vec<AltName>,
        now: talmox_talos_config::time::UnixTime,
        randomness: &mut dyn Randomness,
    ) -> Result<Self, rustls::Error> {
        let problem = |error: &dyn std::fmt::Display| rustls::Error::General(error.to_string());
        let leaf = LeafRequest {
            subject: Name {
                organizations: vec!["kube-master".to_owned()],
                common_name: Some("kube-apiserver".to_owned()),
            },
            alt_names,
            usage: Usage::Server,
            key_encipherment: true,
            not_before: now.minus(BACKDATED),
            lifetime: LIFETIME,
        };
        let (certificate, key) =
            authority.issue(&leaf, randomness).map_err(|error| problem(&error))?;
        let key = PrivateKeyDer::from_pem_slice(key.to_pkcs8_pem().expose().as_bytes())
            .map_err(|error| problem(&error))?;
        let shown = CertificateDer::from(certificate.as_der().to_vec());
        let authority = CertificateDer::from(authority.certificate.as_der().to_vec());
        Self::new(vec![shown, authority.clone()], key, &authority)
    }

    fn new(
        chain: Vec<CertificateDer<'static>>,
        key: PrivateKeyDer<'static>,
        authority: &CertificateDer<'_>,
    ) -> Result<Self, rustls::Error> {
        let roots = authorities::from_der(authority)?;
        let clients = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), tls::provider())
            .allow_unauthenticated()
            .build()
            .map_err(|error| rustls::Error::General(error.to_string()))?;
        let mut config = tls::server()?
            .with_client_cert_verifier(Arc::new(AnyClientCert(Arc::clone(&clients))))
            .with_single_cert(chain, key)?;
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        Ok(Self { config: Arc::new(config), clients })
    }

    /// Whether the CA signed the certificate of the client, and the certificate is valid at this time.
    pub(super) fn accepts(&self, shown: &[CertificateDer<'_>], now: Duration) -> bool {
        let Some((first, rest)) = shown.split_first() else { return false };
        self.clients.verify_client_cert(first, rest, UnixTime::since_unix_epoch(now)).is_ok()
    }
}

/// Verifier that accepts any client certificate, if the client has the private key of the certificate.
#[derive(Debug)]
struct AnyClientCert(Arc<dyn ClientCertVerifier>);

impl ClientCertVerifier for AnyClientCert {
    fn offer_client_auth(&self) -> bool {
        true
    }

    fn client_auth_mandatory(&self) -> bool {
        false
    }

    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        self.0.root_hint_subjects()
    }

    fn verify_client_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: UnixTime,
    ) -> Result<ClientCertVerified, rustls::Error> {
        Ok(ClientCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.0.verify_tls12_signature(message, certificate, signed)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.0.verify_tls13_signature(message, certificate, signed)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.supported_verify_schemes()
    }
}
