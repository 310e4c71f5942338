//! age keys and files (age-encryption.org/v1), limited to the X25519 recipients that SOPS uses.
//!
//! Passphrases, SSH keys and plugins are detected, and the error names them. Files are processed in memory, because
//! their content is only a data key of 32 bytes.

mod bech32;
mod file;

use std::fmt;

use aws_lc_rs::agreement::{PrivateKey, UnparsedPublicKey, X25519, agree};
use zeroize::Zeroizing;

use crate::random::{self, Randomness};
use crate::secret::SecretText;
use crate::time::UnixTime;

pub use file::{decrypt, encrypt};

const RECIPIENT_PREFIX: &str = "age";
const IDENTITY_PREFIX: &str = "age-secret-key-";

/// Error of an age key or file.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AgeError {
    #[error("`{0}` is not an age recipient (age1…)")]
    BadRecipient(String),
    #[error("{0} are not supported as recipients, only X25519 keys (age1…)")]
    UnsupportedRecipient(&'static str),
    #[error(
        "`{0}` is a point of low order, not the recipient of a key: anyone could read data that is encrypted for it"
    )]
    LowOrder(String),
    #[error("line {line} is not an age identity (AGE-SECRET-KEY-1…)")]
    BadIdentity { line: usize },
    #[error("line {line}: {kind} are not supported as identities, only AGE-SECRET-KEY-1…")]
    UnsupportedIdentity { line: usize, kind: &'static str },
    #[error("the text is not an age file")]
    NotAge,
    #[error("the age file has no X25519 recipient, only {0}")]
    NoX25519(String),
    #[error("none of the identities opens the age file")]
    NoMatch,
    #[error("the age file is damaged")]
    Damaged,
}

/// Public key, for encryption.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Recipient([u8; 32]);

/// Private key, for decryption.
#[derive(Clone)]
pub struct Identity(Zeroizing<[u8; 32]>);

impl Recipient {
    pub fn parse(text: &str) -> Result<Self, AgeError> {
        let text = text.trim();
        if text.starts_with("ssh-") {
            return Err(AgeError::UnsupportedRecipient("SSH keys"));
        }
        let bad = || AgeError::BadRecipient(text.to_owned());
        let (prefix, bytes) = bech32::decode(text).ok_or_else(bad)?;
        if prefix != RECIPIENT_PREFIX {
            return Err(if prefix.starts_with("age1") {
                AgeError::UnsupportedRecipient("plugins and post-quantum keys")
            } else {
                bad()
            });
        }
        let recipient = bytes.as_slice().try_into().map(Self).map_err(|_| bad())?;
        if recipient.is_low_order() {
            return Err(AgeError::LowOrder(text.to_owned()));
        }
        Ok(recipient)
    }

    /// Whether the shared secret with this point is zero for every private key. It is enough to test one private key,
    /// because all X25519 scalars are multiples of the cofactor.
    fn is_low_order(&self) -> bool {
        let any = Identity(Zeroizing::new([1; 32]));
        let peer = UnparsedPublicKey::new(&X25519, self.bytes());
        agree(&any.private_key(), peer, (), |_| Ok(())).is_err()
    }

    pub(crate) fn bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

impl fmt::Display for Recipient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&bech32::encode(RECIPIENT_PREFIX, &self.0))
    }
}

impl fmt::Debug for Recipient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl Identity {
    pub fn generate(randomness: &mut dyn Randomness) -> Self {
        Self(Zeroizing::new(random::array(randomness)))
    }

    pub fn parse(text: &str) -> Option<Self> {
        let (prefix, bytes) = bech32::decode(text.trim())?;
        let bytes = Zeroizing::new(bytes);
        let key: [u8; 32] = bytes.as_slice().try_into().ok()?;
        (prefix == IDENTITY_PREFIX).then(|| Self(Zeroizing::new(key)))
    }

    pub fn recipient(&self) -> Recipient {
        let public = self
            .private_key()
            .compute_public_key()
            .expect("invariant: every X25519 key has a public key");
        let bytes = public.as_ref().try_into();
        Recipient(bytes.expect("invariant: X25519 keys have 32 bytes"))
    }

    /// Private key as `AGE-SECRET-KEY-1…`.
    pub fn to_text(&self) -> SecretText {
        let text = Zeroizing::new(bech32::encode(IDENTITY_PREFIX, self.0.as_slice()));
        SecretText::new(text.to_uppercase())
    }

    /// Key file in the format of `age-keygen`.
    pub fn to_key_file(&self, now: UnixTime) -> SecretText {
        SecretText::new(format!(
            "# created: {now}\n# public key: {}\n{}\n",
            self.recipient(),
            self.to_text().expose()
        ))
    }

    pub(crate) fn private_key(&self) -> PrivateKey {
        PrivateKey::from_private_key(&X25519, self.0.as_slice())
            .expect("invariant: any 32 bytes are an X25519 key")
    }
}

impl fmt::Debug for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Identity({})", self.recipient())
    }
}

/// Parses a key file or the content of `SOPS_AGE_KEY`. Each line is one key. Empty lines and comments are skipped. An
/// error contains the line number but never the line, because the line may be a secret.
pub fn parse_identities(text: &str) -> Result<Vec<Identity>, AgeError> {
    let mut identities = vec![];
    for (index, line) in text.lines().enumerate() {
        let (number, line) = (index + 1, line.trim());
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let unsupported = |kind| AgeError::UnsupportedIdentity { line: number, kind };
        if line.starts_with("AGE-PLUGIN-") {
            return Err(unsupported("plugins"));
        }
        if line.starts_with("-----BEGIN") {
            return Err(unsupported("encrypted key files and SSH keys"));
        }
        if line.starts_with("AGE-SECRET-KEY-PQ-") {
            return Err(unsupported("post-quantum keys"));
        }
        let identity = Identity::parse(line).ok_or(AgeError::BadIdentity { line: number })?;
        identities.push(identity);
    }
    Ok(identities)
}

/// Parses recipients separated by commas, as in `SOPS_AGE_RECIPIENTS`.
pub fn parse_recipients(text: &str) -> Result<Vec<Recipient>, AgeError> {
    text.split([',', '\n'])
        .map(str::trim)
        .filter(|part| !part.is_empty() && !part.starts_with('#'))
        .map(Recipient::parse)
        .collect()
}

/// Points of order 1, 2, 4 and 8 on the curve and its twist, in all encodings that RFC 7748 treats as equal.
#[cfg(test)]
pub(crate) fn low_order_points() -> Vec<[u8; 32]> {
    let prime = |last: u8| {
        let mut point = [0xff; 32];
        (point[0], point[31]) = (last, 0x7f);
        point
    };
    let mut points = vec![[0; 32], prime(0xec), prime(0xed), prime(0xee)];
    let mut one = [0; 32];
    one[0] = 1;
    points.push(one);
    for text in [
        "e0eb7a7c3b41b8ae1656e3faf19fc46ada098deb9c32b1fd866205165f49b800",
        "5f9c95bca3508c24b1d0b1559c83ef5b04445cc4581c8e86d8224eddd09f1157",
    ] {
        let byte = |at: usize| u8::from_str_radix(&text[2 * at..2 * at + 2], 16).unwrap();
        points.push(std::array::from_fn(byte));
    }
    points
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Seeded;

    #[test]
    fn a_point_of_low_order_is_not_a_recipient() {
        for point in low_order_points() {
            let text = Recipient(point).to_string();
            assert_eq!(Recipient::parse(&text), Err(AgeError::LowOrder(text.clone())));
            assert!(matches!(parse_recipients(&text), Err(AgeError::LowOrder(_))));
        }
    }

    #[test]
    fn keys_round_trip() {
        let identity = Identity::generate(&mut Seeded(1));
        let file = identity.to_key_file(UnixTime::from_seconds(0));
        assert!(file.expose().starts_with("# created: 1970-01-01T00:00:00Z\n# public key: age1"));
        let read = parse_identities(file.expose()).unwrap();
        assert_eq!(read.len(), 1);
        assert_eq!(read[0].recipient(), identity.recipient());
        let text = identity.recipient().to_string();
        assert_eq!(Recipient::parse(&text), Ok(identity.recipient()));
        assert_eq!(parse_recipients(&format!("{text}, {text},")).unwrap().len(), 2);
        assert!(!format!("{identity:?}").contains("SECRET"));
    }

    #[test]
    fn unsupported_keys_are_named() {
        assert_eq!(
            Recipient::parse("ssh-ed25519 AAAA"),
            Err(AgeError::UnsupportedRecipient("SSH keys"))
        );
        assert!(matches!(Recipient::parse("age1nonsense"), Err(AgeError::BadRecipient(_))));
        assert_eq!(
            parse_identities("\n# x\nAGE-PLUGIN-YUBIKEY-1ABC").unwrap_err().to_string(),
            "line 3: plugins are not supported as identities, only AGE-SECRET-KEY-1…"
        );
        assert_eq!(parse_identities("hunter2").unwrap_err(), AgeError::BadIdentity { line: 1 });
    }
}
