//! Keys and certificates of the kinds that Talos uses: Ed25519, ECDSA on P-256 and RSA with 4096 bits.
//!
//! This module encodes and parses certificates, and uses aws-lc for the cryptography. It does not support revocation,
//! chains and name constraints, because a Talos cluster does not need them.

mod authority;
mod certificate;
pub(crate) mod der;
mod key;
pub(crate) mod pem;

pub use authority::{Authority, AuthorityRequest, LeafRequest, Usage, new_authority, self_signed};
pub use certificate::{AltName, Certificate, Name};
pub use key::{KeyKind, PrivateKey};

/// Error of a key or certificate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PkiError {
    #[error("the text is not PEM")]
    NotPem,
    #[error("the text is not a certificate")]
    NotCertificate,
    #[error("the text is not a supported private key (Ed25519, ECDSA P-256 or RSA)")]
    NotKey,
    #[error("the certificate and the key do not match")]
    KeyMismatch,
    #[error("the key cannot sign")]
    CannotSign,
}
