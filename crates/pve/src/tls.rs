//! Whom to trust, and TLS made of it.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{
    CertificateError, ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme,
};

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

/// TLS as a client, for HTTP/1.1, which is all that Proxmox speaks.
pub(crate) fn config(trust: &Trust) -> Result<ClientConfig, TrustError> {
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let builder = ClientConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .map_err(TrustError::Setup)?;
    let by_leaf = |accepts: Accepts| Arc::new(ByLeaf { provider, accepts });
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
            let verifier = by_leaf(Box::new(move |leaf| pins.contains(&leaf)));
            builder.dangerous().with_custom_certificate_verifier(verifier).with_no_client_auth()
        }
        Trust::Insecure => {
            let verifier = by_leaf(Box::new(|_| true));
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

type Accepts = Box<dyn Fn(Fingerprint) -> bool + Send + Sync>;

/// Judges by the server's own certificate alone. Signatures are checked all the same: what is
/// judged belongs to the key that answers.
pub(crate) struct ByLeaf {
    provider: Arc<CryptoProvider>,
    accepts: Accepts,
}

impl ByLeaf {
    pub(crate) fn new(accepts: impl Fn(Fingerprint) -> bool + Send + Sync + 'static) -> Self {
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        Self { provider, accepts: Box::new(accepts) }
    }
}

impl fmt::Debug for ByLeaf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ByLeaf")
    }
}

impl ServerCertVerifier for ByLeaf {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        if (self.accepts)(Fingerprint::of(end_entity)) {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn authorities_must_be_certificates() {
        let made = rcgen::generate_simple_self_signed(vec!["ca".to_owned()]).unwrap();
        assert!(config(&Trust::Authorities(made.cert.pem().into_bytes())).is_ok());
        for pem in
            ["", "no certificate", "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"]
        {
            assert!(config(&Trust::Authorities(pem.as_bytes().to_vec())).is_err(), "{pem}");
        }
        assert!(matches!(config(&Trust::Pinned(BTreeSet::new())), Err(TrustError::NoFingerprint)));
    }

    #[test]
    fn only_one_protocol_is_offered() {
        let config = config(&Trust::Insecure).unwrap();
        assert_eq!(config.alpn_protocols, [b"http/1.1"]);
    }
}
