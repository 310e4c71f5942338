//! TLS client configuration for configured nodes and for maintenance mode.
//!
//! The current time comes from the clock of the client, so in a lab with faster time certificates expire faster.

use std::sync::Arc;

use rustls::ClientConfig;
use rustls::client::{Resumption, WebPkiServerVerifier};
use talmox_clock::Clock;
use talmox_net::{ByLeaf, authorities, tls};

use crate::credentials::Credentials;
use crate::pin::Pin;

/// Error for credentials that TLS does not accept.
#[derive(Debug, thiserror::Error)]
#[error("TLS cannot be configured with these credentials")]
pub struct SetupError(#[source] Box<dyn std::error::Error + Send + Sync>);

impl SetupError {
    fn new(source: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Self {
        Self(source.into())
    }
}

/// Configuration for a configured node: both sides present a certificate of the cluster's CA.
pub(crate) fn mutual(credentials: &Credentials, clock: Clock) -> Result<ClientConfig, SetupError> {
    let key = credentials.private_key().map_err(SetupError::new)?;
    let config = tls::client_with_clock(clock)
        .map_err(SetupError::new)?
        .with_webpki_verifier(verifier(credentials)?)
        .with_client_auth_cert(credentials.chain(), key)
        .map_err(SetupError::new)?;
    Ok(finish(config))
}

/// Configuration for a node in maintenance mode. Such a node proves only that it has the key of its certificate.
pub(crate) fn anonymous(pin: Option<Pin>, clock: Clock) -> Result<ClientConfig, SetupError> {
    let verifier = ByLeaf::new(move |leaf| pin.is_none() || pin == Pin::of(leaf));
    let config = tls::client_with_clock(clock)
        .map_err(SetupError::new)?
        .dangerous()
        .with_custom_certificate_verifier(verifier)
        .with_no_client_auth();
    Ok(finish(config))
}

/// Verifier that trusts only the CA of the cluster.
pub(crate) fn verifier(credentials: &Credentials) -> Result<Arc<WebPkiServerVerifier>, SetupError> {
    let roots = authorities::from_der(credentials.authority.as_der()).map_err(SetupError::new)?;
    WebPkiServerVerifier::builder_with_provider(Arc::new(roots), tls::provider())
        .build()
        .map_err(SetupError::new)
}

fn finish(mut config: ClientConfig) -> ClientConfig {
    config.alpn_protocols = vec![b"h2".to_vec()];
    // Every connection does a full handshake, because the node may have been configured since the last connection.
    config.resumption = Resumption::disabled();
    config
}
