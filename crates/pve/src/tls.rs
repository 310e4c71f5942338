//! Trust settings, and the TLS configuration that is built from them.

use std::collections::BTreeSet;
use std::io;
use std::sync::Arc;

use rustls::{CertificateError, ClientConfig, OtherError, RootCertStore};
use talmox_net::ByLeaf;
use talmox_net::authorities::{self, AuthorityError};
use talmox_net::tls::{self, ClientBuilder};

use crate::fingerprint::Fingerprint;
use crate::untrusted::ByAuthority;

/// Rule for accepting the certificate of a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Trust {
    /// Certificates of the CAs that this machine trusts.
    System,
    /// Certificates of these CAs only, in PEM form.
    Authorities(Vec<u8>),
    /// Certificates with one of these fingerprints only. Every host of a Proxmox cluster has its own certificate.
    Pinned(BTreeSet<Fingerprint>),
    /// Every certificate, so any server that answers receives the credentials. The caller must warn the user.
    Insecure,
}

#[derive(Debug, thiserror::Error)]
pub enum TrustError {
    #[error(transparent)]
    Authority(#[from] AuthorityError),
    #[error("no fingerprint is configured")]
    NoFingerprint,
    #[error("TLS cannot be configured")]
    Setup(#[source] rustls::Error),
}

/// Error for a server certificate that is not pinned. Contains the fingerprint of the certificate.
#[derive(Debug, thiserror::Error)]
#[error("the certificate of the server has the fingerprint {0}, which is not pinned")]
pub(crate) struct NotPinned(pub(crate) Fingerprint);

impl NotPinned {
    /// Fingerprint of the certificate, if the handshake failed because the certificate is not pinned.
    pub(crate) fn find(handshake: &io::Error) -> Option<Fingerprint> {
        let error = handshake.get_ref()?.downcast_ref::<rustls::Error>()?;
        let rustls::Error::InvalidCertificate(CertificateError::Other(other)) = error else {
            return None;
        };
        other.0.downcast_ref::<Self>().map(|found| found.0)
    }
}

/// TLS client configuration that trusts the certificates of these CAs.
fn by_authority(builder: ClientBuilder, roots: RootCertStore) -> Result<ClientConfig, TrustError> {
    let verifier = ByAuthority::new(roots).map_err(TrustError::Setup)?;
    Ok(builder.dangerous().with_custom_certificate_verifier(verifier).with_no_client_auth())
}

/// TLS client configuration for HTTP/1.1, the only protocol that Proxmox supports.
pub(crate) fn config(trust: &Trust) -> Result<ClientConfig, TrustError> {
    let builder = tls::client().map_err(TrustError::Setup)?;
    let mut config = match trust {
        Trust::System => by_authority(builder, authorities::system()?)?,
        Trust::Authorities(pem) => by_authority(builder, authorities::from_pem(pem)?)?,
        Trust::Pinned(pins) => {
            if pins.is_empty() {
                return Err(TrustError::NoFingerprint);
            }
            let pins = pins.clone();
            let verifier = ByLeaf::judging(move |leaf| {
                let shown = Fingerprint::of(leaf);
                if pins.contains(&shown) {
                    return Ok(());
                }
                Err(CertificateError::Other(OtherError(Arc::new(NotPinned(shown)))))
            });
            builder.dangerous().with_custom_certificate_verifier(verifier).with_no_client_auth()
        }
        Trust::Insecure => {
            let verifier = ByLeaf::anyone();
            builder.dangerous().with_custom_certificate_verifier(verifier).with_no_client_auth()
        }
    };
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(config)
}
