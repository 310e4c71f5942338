//! Fingerprint that the console of a node in maintenance mode shows.

use std::fmt;
use std::str::FromStr;

use aws_lc_rs::digest::{SHA256, SHA256_OUTPUT_LEN, digest};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rustls::pki_types::CertificateDer;
use rustls::server::ParsedCertificate;

/// SHA-256 of the public key (SubjectPublicKeyInfo) of a certificate. Displays as base64.
///
/// In the first seconds after a boot, a node generates its key several times. A pin from these seconds may not match a
/// moment later.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Pin([u8; SHA256_OUTPUT_LEN]);

/// Error for a text that is not a pin.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{text}` is not a fingerprint: it must be 32 bytes in base64, as the node's console shows it"
)]
pub struct BadPin {
    text: String,
}

impl Pin {
    /// Pin of a certificate; `None` if the certificate cannot be parsed.
    pub fn of(certificate: &CertificateDer<'_>) -> Option<Self> {
        let parsed = ParsedCertificate::try_from(certificate).ok()?;
        let hash = digest(&SHA256, &parsed.subject_public_key_info());
        hash.as_ref().try_into().ok().map(Self)
    }
}

impl fmt::Display for Pin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&STANDARD.encode(self.0))
    }
}

impl fmt::Debug for Pin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Pin({self})")
    }
}

impl FromStr for Pin {
    type Err = BadPin;

    fn from_str(text: &str) -> Result<Self, BadPin> {
        let bytes = STANDARD.decode(text.trim()).ok();
        bytes
            .and_then(|bytes| bytes.try_into().ok())
            .map(Self)
            .ok_or_else(|| BadPin { text: text.to_owned() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;
    use talmox_talos_config::pki::{AuthorityRequest, KeyKind, Name, PrivateKey, new_authority};
    use talmox_talos_config::random::SystemRandomness;
    use talmox_talos_config::time::UnixTime;

    #[test]
    fn a_pin_is_the_hash_of_the_public_key() {
        let request = AuthorityRequest {
            subject: Name::organization("talos"),
            kind: KeyKind::Ed25519,
            not_before: UnixTime::from_seconds(1_800_000_000),
            lifetime: Duration::from_hours(1),
        };
        let authority = new_authority(&request, &mut SystemRandomness::new()).unwrap();
        let key: &PrivateKey = &authority.key;
        let pin = Pin::of(&CertificateDer::from(authority.certificate.as_der())).unwrap();
        assert_eq!(pin.to_string(), STANDARD.encode(digest(&SHA256, &key.public_der())));
        assert_eq!(pin.to_string().parse(), Ok(pin));
        assert!("AB:CD".parse::<Pin>().unwrap_err().to_string().contains("AB:CD"));
        assert_eq!(Pin::of(&CertificateDer::from(b"no".as_slice())), None);
    }
}
