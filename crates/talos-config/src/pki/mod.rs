//! Keys and certificates as Talos makes them: Ed25519, ECDSA on P-256 and RSA with 4096 bits.
//!
//! The certificates are written and read by hand; the cryptography is aws-lc's. What is
//! here is what a Talos cluster needs, and no more: no revocation, no chains, no name constraints.

mod authority;
mod certificate;
pub(crate) mod der;
mod key;
pub(crate) mod pem;

pub use authority::{Authority, AuthorityRequest, LeafRequest, Usage, new_authority, self_signed};
pub use certificate::{AltName, Certificate, Name};
pub use key::{KeyKind, PrivateKey};

/// What can be wrong with a key or certificate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PkiError {
    #[error("it is not PEM")]
    NotPem,
    #[error("it is not a certificate")]
    NotCertificate,
    #[error("it is not a private key that is understood (Ed25519, ECDSA P-256 or RSA)")]
    NotKey,
    #[error("the certificate and the key do not belong together")]
    KeyMismatch,
    #[error("the key cannot sign")]
    CannotSign,
}
