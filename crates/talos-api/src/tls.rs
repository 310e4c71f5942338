//! TLS as a client, for the two faces of a node.
//!
//! Time comes from our own clock: in a lab whose time runs faster, certificates age faster too.

use std::sync::Arc;
use std::time::Duration;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{Resumption, WebPkiServerVerifier};
use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::time_provider::TimeProvider;
use rustls::{
    CertificateError, ClientConfig, ConfigBuilder, DigitallySignedStruct, RootCertStore,
    SignatureScheme, WantsVerifier,
};
use talmox_clock::Clock;

use crate::credentials::Credentials;
use crate::pin::Pin;

/// What TLS cannot be set up with.
#[derive(Debug, thiserror::Error)]
#[error("TLS cannot be set up with these credentials")]
pub struct SetupError(#[source] Box<dyn std::error::Error + Send + Sync>);

impl SetupError {
    fn new(source: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Self {
        Self(source.into())
    }
}

/// For a configured node: both sides show a certificate of the cluster's authority.
pub(crate) fn mutual(credentials: &Credentials, clock: Clock) -> Result<ClientConfig, SetupError> {
    let key = credentials.private_key().map_err(SetupError::new)?;
    let config = builder(clock)?
        .with_webpki_verifier(verifier(credentials)?)
        .with_client_auth_cert(credentials.chain(), key)
        .map_err(SetupError::new)?;
    Ok(finish(config))
}

/// For a node in maintenance mode, which proves nothing but that it has its key.
pub(crate) fn anonymous(pin: Option<Pin>, clock: Clock) -> Result<ClientConfig, SetupError> {
    let verifier = Arc::new(ByKey { provider: provider(), pin });
    let config = builder(clock)?
        .dangerous()
        .with_custom_certificate_verifier(verifier)
        .with_no_client_auth();
    Ok(finish(config))
}

/// Judges by the cluster's authority, and by no other.
pub(crate) fn verifier(credentials: &Credentials) -> Result<Arc<WebPkiServerVerifier>, SetupError> {
    let mut roots = RootCertStore::empty();
    let authority = CertificateDer::from(credentials.authority.as_der().to_vec());
    roots.add(authority).map_err(SetupError::new)?;
    WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider())
        .build()
        .map_err(SetupError::new)
}

fn provider() -> Arc<CryptoProvider> {
    Arc::new(rustls::crypto::aws_lc_rs::default_provider())
}

fn builder(clock: Clock) -> Result<ConfigBuilder<ClientConfig, WantsVerifier>, SetupError> {
    ClientConfig::builder_with_details(provider(), Arc::new(OurTime(clock)))
        .with_safe_default_protocol_versions()
        .map_err(SetupError::new)
}

fn finish(mut config: ClientConfig) -> ClientConfig {
    config.alpn_protocols = vec![b"h2".to_vec()];
    // Each connection is judged anew: between two of them a node may have been configured.
    config.resumption = Resumption::disabled();
    config
}

#[derive(Debug)]
struct OurTime(Clock);

impl TimeProvider for OurTime {
    fn current_time(&self) -> Option<UnixTime> {
        Some(UnixTime::since_unix_epoch(Duration::from_secs(self.0.unix())))
    }
}

/// Judges by the key alone, if at all. Signatures are checked all the same: what is judged belongs
/// to the one who answers.
#[derive(Debug)]
struct ByKey {
    provider: Arc<CryptoProvider>,
    pin: Option<Pin>,
}

impl ServerCertVerifier for ByKey {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        if self.pin.is_none() || self.pin == Pin::of(end_entity) {
            Ok(ServerCertVerified::assertion())
        } else {
            Err(CertificateError::ApplicationVerificationFailure.into())
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls12_signature(message, cert, dss, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls13_signature(message, cert, dss, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}
