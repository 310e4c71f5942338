//! Verification of server certificates by CAs. If no CA verifies a certificate, the error has the fingerprint of the
//! certificate, so that the user can compare and pin it.

use std::io;
use std::sync::Arc;

use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{CertificateError, DigitallySignedStruct, OtherError, RootCertStore, SignatureScheme};
use talmox_net::tls;

use crate::fingerprint::Fingerprint;

/// Error for a server certificate that no CA verifies. Contains the fingerprint of the certificate.
#[derive(Debug, thiserror::Error)]
#[error("no trusted CA verifies the certificate with the fingerprint {shown}")]
pub(crate) struct Untrusted {
    shown: Fingerprint,
    source: rustls::Error,
}

impl Untrusted {
    /// Fingerprint of the certificate and the original error, if the handshake failed because no CA verifies the
    /// certificate.
    pub(crate) fn find(handshake: &io::Error) -> Option<(Fingerprint, rustls::Error)> {
        let error = handshake.get_ref()?.downcast_ref::<rustls::Error>()?;
        let rustls::Error::InvalidCertificate(CertificateError::Other(other)) = error else {
            return None;
        };
        other.0.downcast_ref::<Self>().map(|found| (found.shown, found.source.clone()))
    }
}

/// Verifier that makes the same decisions as the verifier of rustls, and adds the fingerprint to its error.
#[derive(Debug)]
pub(crate) struct ByAuthority(Arc<WebPkiServerVerifier>);

impl ByAuthority {
    pub(crate) fn new(roots: RootCertStore) -> Result<Arc<Self>, rustls::Error> {
        let inner = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), tls::provider())
            .build()
            .map_err(|error| rustls::Error::General(error.to_string()))?;
        Ok(Arc::new(Self(inner)))
    }
}

impl ServerCertVerifier for ByAuthority {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        let verified =
            self.0.verify_server_cert(end_entity, intermediates, server_name, ocsp_response, now);
        verified.map_err(|source| {
            let is_untrusted = match &source {
                rustls::Error::InvalidCertificate(error) => !is_about_name_or_time(error),
                _ => false,
            };
            if !is_untrusted {
                return source;
            }
            let untrusted = Untrusted { shown: Fingerprint::of(end_entity), source };
            let error = CertificateError::Other(OtherError(Arc::new(untrusted)));
            rustls::Error::InvalidCertificate(error)
        })
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.0.verify_tls12_signature(message, cert, dss)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.0.verify_tls13_signature(message, cert, dss)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.supported_verify_schemes()
    }
}

/// Whether a certificate of a trusted CA is for another name, or is not valid now. These errors have their own hints.
fn is_about_name_or_time(error: &CertificateError) -> bool {
    matches!(
        error,
        CertificateError::Expired
            | CertificateError::ExpiredContext { .. }
            | CertificateError::NotValidYet
            | CertificateError::NotValidYetContext { .. }
            | CertificateError::NotValidForName
            | CertificateError::NotValidForNameContext { .. }
    )
}
