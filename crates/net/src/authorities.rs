//! Certificate authorities (CAs) that verify the certificates of servers and clients.

use rustls::RootCertStore;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;

/// Reason why no CA certificates could be read.
#[derive(Debug, thiserror::Error)]
pub enum AuthorityError {
    #[error("the CA certificates of this machine cannot be read")]
    NoSystemRoots(#[source] Option<rustls_native_certs::Error>),
    #[error("the CA file contains no certificate in PEM form")]
    NoAuthority,
    #[error("a CA certificate is invalid")]
    BadAuthority(#[source] rustls::Error),
}

/// CA certificates at the usual paths, or at `SSL_CERT_FILE` and `SSL_CERT_DIR`. The platform verifier would return the
/// same on Linux, with more dependencies.
pub fn system() -> Result<RootCertStore, AuthorityError> {
    let found = rustls_native_certs::load_native_certs();
    let mut roots = RootCertStore::empty();
    // Some systems have certificates that rustls cannot parse. They are skipped.
    let (added, _ignored) = roots.add_parsable_certificates(found.certs);
    if added == 0 {
        return Err(AuthorityError::NoSystemRoots(found.errors.into_iter().next()));
    }
    Ok(roots)
}

/// One CA certificate, in DER form.
pub fn from_der(certificate: &[u8]) -> Result<RootCertStore, rustls::Error> {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from(certificate.to_vec()))?;
    Ok(roots)
}

/// One or more CA certificates, in PEM form.
pub fn from_pem(pem: &[u8]) -> Result<RootCertStore, AuthorityError> {
    let mut roots = RootCertStore::empty();
    add_pem(&mut roots, pem)?;
    if roots.is_empty() { Err(AuthorityError::NoAuthority) } else { Ok(roots) }
}

/// Adds CA certificates in PEM form. A text without a certificate is not an error.
pub fn add_pem(roots: &mut RootCertStore, pem: &[u8]) -> Result<(), AuthorityError> {
    for certificate in CertificateDer::pem_slice_iter(pem) {
        let certificate = certificate.map_err(|_| AuthorityError::NoAuthority)?;
        roots.add(certificate).map_err(AuthorityError::BadAuthority)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_without_a_certificate_are_errors() {
        assert!(matches!(from_pem(b""), Err(AuthorityError::NoAuthority)));
        assert!(matches!(from_pem(b"not PEM"), Err(AuthorityError::NoAuthority)));
        let empty = b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
        assert!(matches!(from_pem(empty), Err(AuthorityError::BadAuthority(_))));
        let mut roots = RootCertStore::empty();
        assert!(add_pem(&mut roots, b"").is_ok() && roots.is_empty());
        assert!(from_der(b"not DER").is_err());
    }
}
