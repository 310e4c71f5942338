//! Whom to trust, and TLS made of it.

use std::collections::BTreeSet;
use std::io;
use std::sync::Arc;

use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use rustls::{CertificateError, ClientConfig, OtherError, RootCertStore};
use talmox_tls::ByLeaf;

use crate::fingerprint::Fingerprint;

/// How the certificate of a server is judged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Trust {
    /// By the authorities that this machine trusts.
    System,
    /// By these authorities, in PEM form, and by no others.
    Authorities(Vec<u8>),
    /// By its fingerprint alone, which must be one of these. Every host of a cluster has its own.
    Pinned(BTreeSet<Fingerprint>),
    /// Not at all: whoever answers gets the credentials. Whoever chooses this must warn the user.
    Insecure,
}

#[derive(Debug, thiserror::Error)]
pub enum TrustError {
    #[error("the authorities that this machine trusts cannot be read")]
    NoSystemRoots(#[source] Option<rustls_native_certs::Error>),
    #[error("there is no certificate of an authority in PEM form")]
    NoAuthority,
    #[error("the certificate of an authority is not sound")]
    BadAuthority(#[source] rustls::Error),
    #[error("no fingerprint is given")]
    NoFingerprint,
    #[error("TLS cannot be set up")]
    Setup(#[source] rustls::Error),
}

/// A server showed a certificate that is not pinned, with this fingerprint.
#[derive(Debug, thiserror::Error)]
#[error("its certificate has the fingerprint {0}, which is not pinned")]
pub(crate) struct NotPinned(pub(crate) Fingerprint);

impl NotPinned {
    /// The fingerprint behind a failed handshake, if that is what it failed at.
    pub(crate) fn find(handshake: &io::Error) -> Option<Fingerprint> {
        let error = handshake.get_ref()?.downcast_ref::<rustls::Error>()?;
        let rustls::Error::InvalidCertificate(CertificateError::Other(other)) = error else {
            return None;
        };
        other.0.downcast_ref::<Self>().map(|found| found.0)
    }
}

/// TLS as a client, for HTTP/1.1, which is all that Proxmox speaks.
pub(crate) fn config(trust: &Trust) -> Result<ClientConfig, TrustError> {
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let builder = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(TrustError::Setup)?;
    let mut config = match trust {
        Trust::System => builder.with_root_certificates(system_roots()?).with_no_client_auth(),
        Trust::Authorities(pem) => {
            builder.with_root_certificates(authorities(pem)?).with_no_client_auth()
        }
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

/// What stands in the usual places, or where `SSL_CERT_FILE` and `SSL_CERT_DIR` say. The platform's
/// own verifier would do the same on Linux, with more packages.
fn system_roots() -> Result<RootCertStore, TrustError> {
    let found = rustls_native_certs::load_native_certs();
    let mut roots = RootCertStore::empty();
    // Some of those places hold what no one can use; the rest stands.
    let (added, _ignored) = roots.add_parsable_certificates(found.certs);
    if added == 0 {
        return Err(TrustError::NoSystemRoots(found.errors.into_iter().next()));
    }
    Ok(roots)
}

fn authorities(pem: &[u8]) -> Result<RootCertStore, TrustError> {
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(pem) {
        let certificate = certificate.map_err(|_| TrustError::NoAuthority)?;
        roots.add(certificate).map_err(TrustError::BadAuthority)?;
    }
    if roots.is_empty() { Err(TrustError::NoAuthority) } else { Ok(roots) }
}
