//! Encryption of single values: AES-256-GCM with a nonce of 32 bytes, in the text form of `sops`.

use std::collections::HashMap;
use std::fmt;
use std::hash::{Hash, Hasher};

use aes_gcm::aead::consts::U32;
use aes_gcm::aead::{Aead as _, KeyInit as _, Payload};
use aes_gcm::aes::Aes256;
use aes_gcm::{AesGcm, Nonce};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use zeroize::Zeroizing;

use crate::random::{self, Randomness};

const PREFIX: &str = "ENC[AES256_GCM,data:";
const NONCE: usize = 32;
const TAG: usize = 16;

/// Key that encrypts the values of one file.
#[derive(Clone)]
pub(super) struct DataKey(Zeroizing<[u8; 32]>);

/// Type of a value, as `sops` writes it after `type:`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum ValueKind {
    Text,
    Int,
    Float,
    Bool,
    Time,
    Bytes,
    Comment,
}

/// Decrypted value. The bytes are those that are encrypted and that the MAC covers.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Plain {
    pub(super) kind: ValueKind,
    pub(super) bytes: Zeroizing<Vec<u8>>,
}

/// Nonces of decrypted values. They are used again, so that an unchanged value at the same path has the same
/// ciphertext.
#[derive(Clone, Default)]
pub(super) struct Nonces(HashMap<(String, Plain), [u8; NONCE]>);

/// Error for a text that is not an encrypted value of `sops`, or that was not encrypted with this key for this path.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum OpenError {
    NotSealed,
    Damaged,
}

impl ValueKind {
    const NAMES: [(Self, &'static str); 7] = [
        (Self::Text, "str"),
        (Self::Int, "int"),
        (Self::Float, "float"),
        (Self::Bool, "bool"),
        (Self::Time, "time"),
        (Self::Bytes, "bytes"),
        (Self::Comment, "comment"),
    ];

    fn name(self) -> &'static str {
        let found = Self::NAMES.iter().find(|(kind, _)| *kind == self);
        found.map_or("str", |(_, name)| name)
    }

    fn from_name(name: &str) -> Option<Self> {
        let found = Self::NAMES.iter().find(|(_, known)| *known == name);
        found.map(|(kind, _)| *kind)
    }
}

impl Plain {
    pub(super) fn new(kind: ValueKind, bytes: impl Into<Vec<u8>>) -> Self {
        Self { kind, bytes: Zeroizing::new(bytes.into()) }
    }
}

impl DataKey {
    pub(super) fn generate(randomness: &mut dyn Randomness) -> Self {
        Self(Zeroizing::new(random::array(randomness)))
    }

    pub(super) fn from_bytes(bytes: &[u8]) -> Option<Self> {
        bytes.try_into().ok().map(|key| Self(Zeroizing::new(key)))
    }

    pub(super) fn as_bytes(&self) -> &[u8] {
        self.0.as_slice()
    }

    fn cipher(&self) -> AesGcm<Aes256, U32> {
        AesGcm::new(&(*self.0).into())
    }

    /// Encrypts a value. An empty value stays empty.
    pub(super) fn seal(
        &self,
        plain: &Plain,
        context: &str,
        nonces: &Nonces,
        randomness: &mut dyn Randomness,
    ) -> String {
        if plain.bytes.is_empty() {
            return String::new();
        }
        let known = nonces.0.get(&(context.to_owned(), plain.clone()));
        let nonce = known.copied().unwrap_or_else(|| random::array(randomness));
        let payload = Payload { msg: plain.bytes.as_slice(), aad: context.as_bytes() };
        let mut data = self
            .cipher()
            .encrypt(&Nonce::<U32>::from(nonce), payload)
            .expect("invariant: values are far below the cipher's limit");
        let tag = data.split_off(data.len() - TAG);
        format!(
            "{PREFIX}{},iv:{},tag:{},type:{}]",
            STANDARD.encode(data),
            STANDARD.encode(nonce),
            STANDARD.encode(tag),
            plain.kind.name()
        )
    }

    /// Decrypts the output of [`Self::seal`], and stores its nonce in `nonces`.
    pub(super) fn open(
        &self,
        text: &str,
        context: &str,
        nonces: &mut Nonces,
    ) -> Result<Plain, OpenError> {
        if text.is_empty() {
            return Ok(Plain::new(ValueKind::Text, []));
        }
        let sealed = Sealed::parse(text).ok_or(OpenError::NotSealed)?;
        let mut data = sealed.data;
        data.extend(sealed.tag);
        let payload = Payload { msg: &data, aad: context.as_bytes() };
        let bytes = self
            .cipher()
            .decrypt(&Nonce::<U32>::from(sealed.nonce), payload)
            .map_err(|_| OpenError::Damaged)?;
        let plain = Plain::new(sealed.kind, bytes);
        nonces.0.insert((context.to_owned(), plain.clone()), sealed.nonce);
        Ok(plain)
    }
}

/// Whether a text has the form of an encrypted value.
pub(super) fn is_sealed(text: &str) -> bool {
    text.starts_with(PREFIX)
}

struct Sealed {
    data: Vec<u8>,
    nonce: [u8; NONCE],
    tag: Vec<u8>,
    kind: ValueKind,
}

impl Sealed {
    fn parse(text: &str) -> Option<Self> {
        let fields = text.strip_prefix(PREFIX)?.strip_suffix(']')?;
        let (data, rest) = fields.split_once(",iv:")?;
        let (nonce, rest) = rest.split_once(",tag:")?;
        let (tag, kind) = rest.split_once(",type:")?;
        Some(Self {
            data: STANDARD.decode(data).ok()?,
            nonce: STANDARD.decode(nonce).ok()?.try_into().ok()?,
            tag: STANDARD.decode(tag).ok().filter(|tag| tag.len() == TAG)?,
            kind: ValueKind::from_name(kind)?,
        })
    }
}

impl Hash for Plain {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.kind.hash(state);
        self.bytes.as_slice().hash(state);
    }
}

impl fmt::Debug for DataKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("DataKey(******)")
    }
}

impl fmt::Debug for Plain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Plain({:?}, ******)", self.kind)
    }
}

impl fmt::Debug for Nonces {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Nonces({})", self.0.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Seeded;

    #[test]
    fn values_round_trip_with_their_nonce() {
        let mut randomness = Seeded(1);
        let key = DataKey::generate(&mut randomness);
        let mut nonces = Nonces::default();
        let plain = Plain::new(ValueKind::Int, "50000");
        let first = key.seal(&plain, "a:b:", &nonces, &mut randomness);
        assert!(is_sealed(&first) && first.ends_with(",type:int]"));
        assert_eq!(key.open(&first, "a:b:", &mut nonces), Ok(plain.clone()));
        assert_eq!(key.seal(&plain, "a:b:", &nonces, &mut randomness), first);
        assert_ne!(key.seal(&plain, "a:c:", &nonces, &mut randomness), first);
        assert_eq!(key.open(&first, "a:c:", &mut nonces), Err(OpenError::Damaged));
        assert_eq!(key.open("50000", "a:b:", &mut nonces), Err(OpenError::NotSealed));
        assert_eq!(key.seal(&Plain::new(ValueKind::Text, ""), "a:", &nonces, &mut randomness), "");
    }
}
