//! Servers that are judged by their own certificate and not by an authority: Proxmox hosts and Talos nodes that are known
//! by a fingerprint, and servers that are asked for their certificate only.

use std::fmt;
use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, aws_lc_rs, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{CertificateError, DigitallySignedStruct, SignatureScheme};

type Judge = Box<dyn Fn(&CertificateDer<'_>) -> Result<(), CertificateError> + Send + Sync>;

/// Judges by the server's own certificate alone. Signatures of the handshake are checked all the same, so that the server
/// has the key of the certificate that was judged.
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

    /// The same with an error that names the cause.
    pub fn judging(
        judge: impl Fn(&CertificateDer<'_>) -> Result<(), CertificateError> + Send + Sync + 'static,
    ) -> Arc<Self> {
        Arc::new(Self { provider: aws_lc_rs::default_provider(), judge: Box::new(judge) })
    }

    /// Accepts every certificate.
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
