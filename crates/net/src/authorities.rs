//! Certificate authorities that certificates of servers and clients are judged by.

use rustls::RootCertStore;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;

/// Why there are no authorities to judge certificates by.
#[derive(Debug, thiserror::Error)]
pub enum AuthorityError {
    #[error("the authorities that this machine trusts cannot be read")]
    NoSystemRoots(#[source] Option<rustls_native_certs::Error>),
    #[error("there is no certificate of an authority in PEM form")]
    NoAuthority,
    #[error("the certificate of an authority is not sound")]
    BadAuthority(#[source] rustls::Error),
}

/// The authorities that this machine trusts: those in the usual places, or where `SSL_CERT_FILE` and `SSL_CERT_DIR` say.
/// The platform's own verifier would do the same on Linux, with more packages.
pub fn system() -> Result<RootCertStore, AuthorityError> {
    let found = rustls_native_certs::load_native_certs();
    let mut roots = RootCertStore::empty();
    // Some systems ship certificates that rustls cannot use; the others are still good.
    let (added, _ignored) = roots.add_parsable_certificates(found.certs);
    if added == 0 {
        return Err(AuthorityError::NoSystemRoots(found.errors.into_iter().next()));
    }
    Ok(roots)
}

/// One authority, in DER form.
pub fn from_der(certificate: &[u8]) -> Result<RootCertStore, rustls::Error> {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from(certificate.to_vec()))?;
    Ok(roots)
}

/// One or more authorities, in PEM form.
pub fn from_pem(pem: &[u8]) -> Result<RootCertStore, AuthorityError> {
    let mut roots = RootCertStore::empty();
    add_pem(&mut roots, pem)?;
    if roots.is_empty() { Err(AuthorityError::NoAuthority) } else { Ok(roots) }
}

/// Adds authorities in PEM form; a text without any adds none.
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
