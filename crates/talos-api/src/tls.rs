//! TLS as a client, for the two faces of a node.
//!
//! Time comes from our own clock: in a lab whose time runs faster, certificates age faster too.

use std::sync::Arc;
use std::time::Duration;

use rustls::client::{Resumption, WebPkiServerVerifier};
use rustls::crypto::CryptoProvider;
use rustls::pki_types::{CertificateDer, UnixTime};
use rustls::time_provider::TimeProvider;
use rustls::{ClientConfig, ConfigBuilder, RootCertStore, WantsVerifier};
use talmox_clock::Clock;
use talmox_tls::ByLeaf;

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
    let verifier = ByLeaf::new(move |leaf| pin.is_none() || pin == Pin::of(leaf));
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
