//! Verification of a server by its own certificate, without a CA. It is used for Proxmox hosts and Talos nodes with a
//! known fingerprint, and for servers of which only the certificate is read.

use std::fmt;
use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, aws_lc_rs, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{CertificateError, DigitallySignedStruct, SignatureScheme};

type Judge = Box<dyn Fn(&CertificateDer<'_>) -> Result<(), CertificateError> + Send + Sync>;

/// Verifier that checks only the server's own certificate. The signatures of the handshake are also checked, so the
/// server must have the key of this certificate.
pub struct ByLeaf {
    provider: CryptoProvider,
    judge: Judge,
}

impl ByLeaf {
    pub fn new(accepts: impl Fn(&CertificateDer<'_>) -> bool + Send + Sync + 'static) -> Arc<Self> {
        Self::judging(move |leaf| {
            if accepts(leaf) {
                Ok(())
            } else {
                Err(CertificateError::ApplicationVerificationFailure)
            }
        })
    }

    /// Verifier with a function that returns an error with the cause.
    pub fn judging(
        judge: impl Fn(&CertificateDer<'_>) -> Result<(), CertificateError> + Send + Sync + 'static,
    ) -> Arc<Self> {
        Arc::new(Self { provider: aws_lc_rs::default_provider(), judge: Box::new(judge) })
    }

    /// Verifier that accepts every certificate.
    pub fn anyone() -> Arc<Self> {
        Self::new(|_| true)
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
        (self.judge)(end_entity)?;
        Ok(ServerCertVerified::assertion())
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
