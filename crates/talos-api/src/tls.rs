//! TLS as a client, for nodes with a machine config and for nodes in maintenance mode.

use std::sync::Arc;

use rustls::ClientConfig;
use rustls::client::{Resumption, WebPkiServerVerifier};
use talmox_clock::Clock;
use talmox_net::{ByLeaf, authorities, tls};

use crate::credentials::Credentials;
use crate::pin::Pin;

/// Why TLS cannot be set up.
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
    let config = tls::client_with_clock(clock)
        .map_err(SetupError::new)?
        .with_webpki_verifier(verifier(credentials)?)
        .with_client_auth_cert(credentials.chain(), key)
        .map_err(SetupError::new)?;
    Ok(finish(config))
}

/// For a node in maintenance mode, which proves only that it has its key.
pub(crate) fn anonymous(pin: Option<Pin>, clock: Clock) -> Result<ClientConfig, SetupError> {
    let verifier = ByLeaf::new(move |leaf| pin.is_none() || pin == Pin::of(leaf));
    let config = tls::client_with_clock(clock)
        .map_err(SetupError::new)?
        .dangerous()
        .with_custom_certificate_verifier(verifier)
        .with_no_client_auth();
    Ok(finish(config))
}

/// Judges by the cluster's authority, and by no other.
pub(crate) fn verifier(credentials: &Credentials) -> Result<Arc<WebPkiServerVerifier>, SetupError> {
    let roots = authorities::from_der(credentials.authority.as_der()).map_err(SetupError::new)?;
    WebPkiServerVerifier::builder_with_provider(Arc::new(roots), tls::provider())
        .build()
        .map_err(SetupError::new)
}

fn finish(mut config: ClientConfig) -> ClientConfig {
    config.alpn_protocols = vec![b"h2".to_vec()];
    // Each connection is judged again: between two of them a node may have been configured.
    config.resumption = Resumption::disabled();
    config
}
