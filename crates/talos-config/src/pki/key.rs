//! Private keys in the encodings that Talos uses.

use aws_lc_rs::encoding::{AsDer as _, EcPrivateKeyRfc5915Der, Pkcs8V1Der, PublicKeyX509Der};
use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::rsa;
use aws_lc_rs::signature::{
    ECDSA_P256_SHA256_ASN1_SIGNING, EcdsaKeyPair, Ed25519KeyPair, KeyPair as _, RSA_PKCS1_SHA512,
};
use zeroize::Zeroizing;

use super::{PkiError, der, pem};
use crate::random::{self, Randomness};
use crate::secret::SecretText;

const LABEL_ED25519: &str = "ED25519 PRIVATE KEY";
const LABEL_EC: &str = "EC PRIVATE KEY";
const LABEL_RSA: &str = "RSA PRIVATE KEY";
const LABEL_PKCS8: &str = "PRIVATE KEY";
const LABEL_PUBLIC: &str = "PUBLIC KEY";

/// Object identifier of the curve P-256.
const P256: &[u8] = &[0x2a, 0x86, 0x48, 0xce, 0x3d, 0x03, 0x01, 0x07];

/// Kinds of keys that Talos uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyKind {
    Ed25519,
    EcdsaP256,
    /// RSA with 4096 bits. Generating such a key takes a second or more.
    Rsa4096,
}

/// Private key that signs.
pub struct PrivateKey(Inner);

enum Inner {
    Ed25519(Ed25519KeyPair),
    Ecdsa(EcdsaKeyPair),
    Rsa(Box<rsa::KeyPair>),
}

impl PrivateKey {
    pub fn generate(kind: KeyKind, randomness: &mut dyn Randomness) -> Self {
        Self(match kind {
            KeyKind::Ed25519 => {
                let seed: Zeroizing<[u8; 32]> = Zeroizing::new(random::array(randomness));
                let pair = Ed25519KeyPair::from_seed_unchecked(seed.as_slice());
                Inner::Ed25519(pair.expect("invariant: any 32 bytes are an Ed25519 key"))
            }
            KeyKind::EcdsaP256 => Inner::Ecdsa(generate_p256(randomness)),
            KeyKind::Rsa4096 => {
                let pair = rsa::KeyPair::generate(rsa::KeySize::Rsa4096);
                Inner::Rsa(Box::new(pair.expect("invariant: RSA keys can be made")))
            }
        })
    }

    /// Parses `ED25519`, `EC`, `RSA` and plain `PRIVATE KEY` blocks, as Talos does.
    pub fn from_pem(text: &str) -> Result<Self, PkiError> {
        let (label, der) = pem::decode(text).ok_or(PkiError::NotPem)?;
        let algorithm = &ECDSA_P256_SHA256_ASN1_SIGNING;
        let inner = match label {
            LABEL_ED25519 => {
                Ed25519KeyPair::from_pkcs8_maybe_unchecked(&der).ok().map(Inner::Ed25519)
            }
            LABEL_EC => EcdsaKeyPair::from_private_key_der(algorithm, &der).ok().map(Inner::Ecdsa),
            LABEL_RSA => rsa::KeyPair::from_der(&der).ok().map(|pair| Inner::Rsa(Box::new(pair))),
            LABEL_PKCS8 => return Self::from_pkcs8(&der),
            _ => None,
        };
        inner.map(Self).ok_or(PkiError::NotKey)
    }

    /// Parses a key in PKCS#8 DER form.
    pub fn from_pkcs8(der: &[u8]) -> Result<Self, PkiError> {
        let ed25519 = Ed25519KeyPair::from_pkcs8_maybe_unchecked(der).ok().map(Inner::Ed25519);
        let ecdsa = || {
            let pair = EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_ASN1_SIGNING, der);
            pair.ok().map(Inner::Ecdsa)
        };
        let rsa = || rsa::KeyPair::from_pkcs8(der).ok().map(|pair| Inner::Rsa(Box::new(pair)));
        ed25519.or_else(ecdsa).or_else(rsa).map(Self).ok_or(PkiError::NotKey)
    }

    pub fn kind(&self) -> KeyKind {
        match &self.0 {
            Inner::Ed25519(_) => KeyKind::Ed25519,
            Inner::Ecdsa(_) => KeyKind::EcdsaP256,
            Inner::Rsa(_) => KeyKind::Rsa4096,
        }
    }

    /// Key with the label and the encoding that Talos expects: PKCS#8 for Ed25519, SEC1 for ECDSA, and PKCS#1 for RSA.
    pub fn to_pem(&self) -> SecretText {
        const EXPORTS: &str = "invariant: a key can be written";
        let text = match &self.0 {
            Inner::Ed25519(pair) => {
                let der = pair.to_pkcs8v1().expect(EXPORTS);
                pem::encode(LABEL_ED25519, der.as_ref())
            }
            Inner::Ecdsa(pair) => {
                let der: EcPrivateKeyRfc5915Der<'_> = pair.private_key().as_der().expect(EXPORTS);
                pem::encode(LABEL_EC, der.as_ref())
            }
            Inner::Rsa(pair) => {
                let der: Pkcs8V1Der<'_> = pair.as_der().expect(EXPORTS);
                pem::encode(LABEL_RSA, pkcs8_content(der.as_ref()).expect(EXPORTS))
            }
        };
        SecretText::new(text.as_str())
    }

    /// Key as a `PRIVATE KEY` block (PKCS#8). TLS libraries can parse this form.
    pub fn to_pkcs8_pem(&self) -> SecretText {
        SecretText::new(pem::encode(LABEL_PKCS8, &self.to_pkcs8()).as_str())
    }

    /// Key in PKCS#8 DER form. TLS libraries can parse this form.
    pub fn to_pkcs8(&self) -> Zeroizing<Vec<u8>> {
        const EXPORTS: &str = "invariant: a key can be written";
        let der = match &self.0 {
            Inner::Ed25519(pair) => pair.to_pkcs8v1().expect(EXPORTS).as_ref().to_vec(),
            Inner::Ecdsa(pair) => pair.to_pkcs8v1().expect(EXPORTS).as_ref().to_vec(),
            Inner::Rsa(pair) => {
                let der: Pkcs8V1Der<'_> = pair.as_der().expect(EXPORTS);
                der.as_ref().to_vec()
            }
        };
        Zeroizing::new(der)
    }

    /// Public key in the encoding that certificates contain.
    pub fn public_der(&self) -> Vec<u8> {
        let der: Result<PublicKeyX509Der<'_>, _> = match &self.0 {
            Inner::Ed25519(pair) => pair.public_key().as_der(),
            Inner::Ecdsa(pair) => pair.public_key().as_der(),
            Inner::Rsa(pair) => pair.public_key().as_der(),
        };
        let der = der.expect("invariant: a public key can be written");
        der.as_ref().to_vec()
    }

    /// Public key as a `PUBLIC KEY` block.
    pub fn public_pem(&self) -> String {
        pem::encode(LABEL_PUBLIC, &self.public_der()).to_string()
    }

    pub(super) fn sign(&self, message: &[u8]) -> Result<Vec<u8>, PkiError> {
        let rng = SystemRandom::new();
        match &self.0 {
            Inner::Ed25519(pair) => Ok(pair.sign(message).as_ref().to_vec()),
            Inner::Ecdsa(pair) => match pair.sign(&rng, message) {
                Ok(signature) => Ok(signature.as_ref().to_vec()),
                Err(_) => Err(PkiError::CannotSign),
            },
            Inner::Rsa(pair) => {
                let mut signature = vec![0; pair.public_modulus_len()];
                pair.sign(&RSA_PKCS1_SHA512, &rng, message, &mut signature)
                    .map_err(|_| PkiError::CannotSign)?;
                Ok(signature)
            }
        }
    }
}

impl std::fmt::Debug for PrivateKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "PrivateKey({:?}, ******)", self.kind())
    }
}

/// Generates a P-256 key. Random numbers are drawn until one is below the order of the curve. This is nearly always the
/// first number.
fn generate_p256(randomness: &mut dyn Randomness) -> EcdsaKeyPair {
    let read =
        |sec1: &[u8]| EcdsaKeyPair::from_private_key_der(&ECDSA_P256_SHA256_ASN1_SIGNING, sec1);
    loop {
        let secret: Zeroizing<[u8; 32]> = Zeroizing::new(random::array(randomness));
        if let Ok(pair) = read(&sec1(secret.as_slice(), None)) {
            // The key is parsed again with its public key. Otherwise the public key would be missing in the output.
            let whole = sec1(secret.as_slice(), Some(pair.public_key().as_ref()));
            return read(&whole).expect("invariant: private and public key match");
        }
    }
}

fn sec1(secret: &[u8], public: Option<&[u8]>) -> Zeroizing<Vec<u8>> {
    let public = public.map(|point| der::value(der::context(1, true), &der::bit_string(point)));
    Zeroizing::new(der::sequence(&[
        &der::integer(&[1]),
        &der::value(der::OCTET_STRING, secret),
        &der::value(der::context(0, true), &der::value(der::OID, P256)),
        &public.unwrap_or_default(),
    ]))
}

/// Content of a PKCS#8 key: the octet string after version and algorithm.
fn pkcs8_content(bytes: &[u8]) -> Option<&[u8]> {
    let mut fields = der::Reader::new(bytes).sequence()?;
    fields.expect(der::INTEGER)?;
    fields.expect(der::SEQUENCE)?;
    fields.expect(der::OCTET_STRING)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Seeded;

    #[test]
    fn keys_round_trip_in_every_encoding() {
        for (kind, label) in [(KeyKind::Ed25519, LABEL_ED25519), (KeyKind::EcdsaP256, LABEL_EC)] {
            let key = PrivateKey::generate(kind, &mut Seeded(5));
            let pem = key.to_pem();
            assert!(pem.expose().starts_with(&format!("-----BEGIN {label}-----\n")));
            for text in [&pem, &key.to_pkcs8_pem()] {
                let back = PrivateKey::from_pem(text.expose()).unwrap();
                assert_eq!(back.kind(), kind);
                assert_eq!(back.to_pem(), pem);
                assert_eq!(back.public_der(), key.public_der());
            }
            let back = PrivateKey::from_pkcs8(&key.to_pkcs8()).unwrap();
            assert_eq!((back.kind(), back.to_pem()), (kind, pem.clone()));
            let (label, public) = pem::decode(&key.public_pem())
                .map(|(label, der)| (label.to_owned(), der.to_vec()))
                .unwrap();
            assert_eq!((label.as_str(), public), (LABEL_PUBLIC, key.public_der()));
            let again = PrivateKey::generate(kind, &mut Seeded(5));
            assert_eq!(again.to_pem(), pem);
            assert!(!format!("{key:?}").contains("BEGIN"));
        }
        assert!(matches!(
            PrivateKey::from_pem(
                "-----BEGIN EC PRIVATE KEY-----\nAAAA\n-----END EC PRIVATE KEY-----"
            ),
            Err(PkiError::NotKey)
        ));
    }

    #[test]
    fn go_writes_the_same_bytes_for_a_p256_key() {
        // Version, key, curve and public key have 121 bytes, as in the output of Go's x509.MarshalECPrivateKey.
        let key = PrivateKey::generate(KeyKind::EcdsaP256, &mut Seeded(6));
        let (_, der) = pem::decode(key.to_pem().expose()).map(|(l, d)| (l.to_owned(), d)).unwrap();
        assert_eq!(der.len(), 121);
        let key = PrivateKey::generate(KeyKind::Ed25519, &mut Seeded(6));
        let (_, der) = pem::decode(key.to_pem().expose()).map(|(l, d)| (l.to_owned(), d)).unwrap();
        assert_eq!(der.len(), 48);
    }
}
