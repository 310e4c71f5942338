//! age file format: a header that contains the file key wrapped for each recipient, then the payload in chunks. The
//! file is armored text, as in SOPS files.

use aws_lc_rs::aead::{Aad, CHACHA20_POLY1305, LessSafeKey, Nonce, UnboundKey};
use aws_lc_rs::agreement::{UnparsedPublicKey, X25519, agree};
use aws_lc_rs::hkdf::{HKDF_SHA256, Salt};
use aws_lc_rs::hmac;
use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, STANDARD_NO_PAD};
use zeroize::Zeroizing;

use super::{AgeError, Identity, Recipient};
use crate::random::{self, Randomness};

const VERSION_LINE: &str = "age-encryption.org/v1";
const X25519_LABEL: &[u8] = b"age-encryption.org/v1/X25519";
const BEGIN: &str = "-----BEGIN AGE ENCRYPTED FILE-----";
const END: &str = "-----END AGE ENCRYPTED FILE-----";
const LINE: usize = 64;
const CHUNK: usize = 64 * 1024;
const TAG: usize = 16;

type Key = Zeroizing<[u8; 32]>;

/// Encrypts for one or more recipients. The result is armored text.
pub fn encrypt(
    plaintext: &[u8],
    recipients: &[Recipient],
    randomness: &mut dyn Randomness,
) -> Result<String, AgeError> {
    let file_key: Zeroizing<[u8; 16]> = Zeroizing::new(random::array(randomness));
    let mut header = format!("{VERSION_LINE}\n");
    for recipient in recipients {
        let ephemeral = Identity::generate(randomness);
        let share = ephemeral.recipient();
        let key = wrapping_key(&ephemeral, recipient, &share, recipient)
            .ok_or_else(|| AgeError::LowOrder(recipient.to_string()))?;
        let body = seal(&key, [0; 12], file_key.as_slice());
        header.push_str(&format!(
            "-> X25519 {}\n{}\n",
            STANDARD_NO_PAD.encode(share.bytes()),
            STANDARD_NO_PAD.encode(body)
        ));
    }
    header.push_str("---");
    let mac = hmac::sign(&mac_key(&file_key[..]), header.as_bytes());
    header.push_str(&format!(" {}\n", STANDARD_NO_PAD.encode(mac)));

    let nonce: [u8; 16] = random::array(randomness);
    let key = derive(&file_key[..], &nonce, b"payload");
    let mut out = header.into_bytes();
    out.extend(nonce);
    let mut chunks = plaintext.chunks(CHUNK).peekable();
    let mut counter = 0;
    loop {
        let chunk = chunks.next().unwrap_or_default();
        let is_last = chunks.peek().is_none();
        out.extend(seal(&key, chunk_nonce(counter, is_last), chunk));
        counter += 1;
        if is_last {
            return Ok(armor(&out));
        }
    }
}

/// Decrypts armored text with the first identity that matches a recipient.
pub fn decrypt(text: &str, identities: &[Identity]) -> Result<Zeroizing<Vec<u8>>, AgeError> {
    let bytes = dearmor(text).ok_or(AgeError::NotAge)?;
    let file = Header::parse(&bytes).ok_or(AgeError::NotAge)?;
    let shares: Vec<_> = file.stanzas.iter().filter(|s| s.kind == "X25519").collect();
    if shares.is_empty() {
        let kinds: Vec<_> = file.stanzas.iter().map(|s| s.kind).collect();
        return Err(AgeError::NoX25519(kinds.join(", ")));
    }
    let file_key = identities
        .iter()
        .find_map(|identity| shares.iter().find_map(|stanza| stanza.open(identity)))
        .ok_or(AgeError::NoMatch)?;
    hmac::verify(&mac_key(&file_key), file.signed, &file.mac).map_err(|_| AgeError::Damaged)?;
    let (nonce, mut payload) = file.payload.split_at_checked(16).ok_or(AgeError::Damaged)?;
    let key = derive(&file_key, nonce, b"payload");
    let mut plaintext = Zeroizing::new(vec![]);
    let mut counter = 0;
    loop {
        let is_last = payload.len() <= CHUNK + TAG;
        let (chunk, rest) = payload.split_at(payload.len().min(CHUNK + TAG));
        let opened = open(&key, chunk_nonce(counter, is_last), chunk).ok_or(AgeError::Damaged)?;
        if opened.is_empty() && counter > 0 {
            return Err(AgeError::Damaged);
        }
        plaintext.extend_from_slice(&opened);
        if is_last {
            return Ok(plaintext);
        }
        (payload, counter) = (rest, counter + 1);
    }
}

struct Header<'a> {
    stanzas: Vec<Stanza<'a>>,
    /// Bytes that the MAC of the header covers.
    signed: &'a [u8],
    mac: Vec<u8>,
    payload: &'a [u8],
}

struct Stanza<'a> {
    kind: &'a str,
    arguments: Vec<&'a str>,
    body: Vec<u8>,
}

impl<'a> Header<'a> {
    fn parse(bytes: &'a [u8]) -> Option<Self> {
        let mut rest = bytes;
        let mut line = || -> Option<&'a str> {
            let end = rest.iter().position(|byte| *byte == b'\n')?;
            let (line, after) = rest.split_at(end);
            rest = &after[1..];
            std::str::from_utf8(line).ok()
        };
        if line()? != VERSION_LINE {
            return None;
        }
        let mut stanzas = vec![];
        loop {
            let first = line()?;
            if let Some(mac) = first.strip_prefix("--- ") {
                let signed = bytes.len() - rest.len() - mac.len() - 2;
                return Some(Self {
                    stanzas,
                    signed: &bytes[..signed],
                    mac: STANDARD_NO_PAD.decode(mac).ok()?,
                    payload: rest,
                });
            }
            let mut words = first.strip_prefix("-> ")?.split(' ');
            let kind = words.next()?;
            let mut body = String::new();
            loop {
                let part = line()?;
                body.push_str(part);
                match part.len() {
                    ..LINE => break,
                    LINE => {}
                    _ => return None,
                }
            }
            stanzas.push(Stanza {
                kind,
                arguments: words.collect(),
                body: STANDARD_NO_PAD.decode(body).ok()?,
            });
        }
    }
}

impl Stanza<'_> {
    /// File key; `None` if this stanza is not for the identity.
    fn open(&self, identity: &Identity) -> Option<Zeroizing<Vec<u8>>> {
        let [share] = self.arguments.as_slice() else {
            return None;
        };
        let share: [u8; 32] = STANDARD_NO_PAD.decode(share).ok()?.try_into().ok()?;
        let share = Recipient(share);
        let key = wrapping_key(identity, &share, &share, &identity.recipient())?;
        open(&key, [0; 12], &self.body).filter(|key| key.len() == 16)
    }
}

/// Key that wraps the file key. Sender and recipient derive the same key. `None` for a point of low order: with such a
/// point the shared secret is always zero, so the file would not be protected.
fn wrapping_key(
    own: &Identity,
    other: &Recipient,
    share: &Recipient,
    recipient: &Recipient,
) -> Option<Key> {
    let peer = UnparsedPublicKey::new(&X25519, other.bytes());
    let salt = [*share.bytes(), *recipient.bytes()].concat();
    agree(&own.private_key(), peer, (), |shared| Ok(derive(shared, &salt, X25519_LABEL))).ok()
}

fn derive(secret: &[u8], salt: &[u8], label: &[u8]) -> Key {
    let mut key = Key::default();
    Salt::new(HKDF_SHA256, salt)
        .extract(secret)
        .expand(&[label], HKDF_SHA256)
        .and_then(|okm| okm.fill(key.as_mut_slice()))
        .expect("invariant: HKDF-SHA256 gives 32 bytes");
    key
}

fn mac_key(file_key: &[u8]) -> hmac::Key {
    hmac::Key::new(hmac::HMAC_SHA256, derive(file_key, &[], b"header").as_slice())
}

fn cipher(key: &Key) -> LessSafeKey {
    let key = UnboundKey::new(&CHACHA20_POLY1305, key.as_slice());
    LessSafeKey::new(key.expect("invariant: ChaCha20-Poly1305 keys have 32 bytes"))
}

fn seal(key: &Key, nonce: [u8; 12], plaintext: &[u8]) -> Vec<u8> {
    let mut data = plaintext.to_vec();
    cipher(key)
        .seal_in_place_append_tag(Nonce::assume_unique_for_key(nonce), Aad::empty(), &mut data)
        .expect("invariant: chunks are far below the cipher's limit");
    data
}

fn open(key: &Key, nonce: [u8; 12], sealed: &[u8]) -> Option<Zeroizing<Vec<u8>>> {
    let mut data = Zeroizing::new(sealed.to_vec());
    let nonce = Nonce::assume_unique_for_key(nonce);
    let length = cipher(key).open_in_place(nonce, Aad::empty(), &mut data).ok()?.len();
    data.truncate(length);
    Some(data)
}

/// Nonce of a chunk. The first eleven bytes are the number of the chunk. The last byte marks the last chunk.
fn chunk_nonce(counter: u64, is_last: bool) -> [u8; 12] {
    let mut nonce = [0; 12];
    nonce[3..11].copy_from_slice(&counter.to_be_bytes());
    nonce[11] = u8::from(is_last);
    nonce
}

fn armor(bytes: &[u8]) -> String {
    let body = STANDARD.encode(bytes);
    let mut text = format!("{BEGIN}\n");
    let mut rest = body.as_str();
    while !rest.is_empty() {
        let (line, after) = rest.split_at(rest.len().min(LINE));
        text.push_str(line);
        text.push('\n');
        rest = after;
    }
    text.push_str(END);
    text.push('\n');
    text
}

fn dearmor(text: &str) -> Option<Vec<u8>> {
    let body = text.trim().strip_prefix(BEGIN)?.strip_suffix(END)?;
    let body: String = body.lines().map(str::trim_end).collect();
    STANDARD.decode(body).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Seeded;

    fn round_trip(plaintext: &[u8]) {
        let mut randomness = Seeded(7);
        let (one, two) = (Identity::generate(&mut randomness), Identity::generate(&mut randomness));
        let other = Identity::generate(&mut randomness);
        let both = [one.recipient(), two.recipient()];
        let text = encrypt(plaintext, &both, &mut randomness).unwrap();
        for identity in [one, two] {
            let identities = [other.clone(), identity];
            assert_eq!(decrypt(&text, &identities).unwrap().as_slice(), plaintext);
        }
        assert_eq!(decrypt(&text, &[other]), Err(AgeError::NoMatch));
    }

    #[test]
    fn every_recipient_can_decrypt() {
        round_trip(b"");
        round_trip(b"data key");
        round_trip(&vec![1; CHUNK]);
        round_trip(&vec![2; CHUNK + 1]);
    }

    #[test]
    fn damaged_files_are_rejected() {
        let mut randomness = Seeded(8);
        let identity = Identity::generate(&mut randomness);
        let text = encrypt(b"data key", &[identity.recipient()], &mut randomness).unwrap();
        let bytes = dearmor(&text).unwrap();
        for at in 0..bytes.len() {
            let mut broken = bytes.clone();
            broken[at] ^= 1;
            let result = decrypt(&armor(&broken), std::slice::from_ref(&identity));
            assert!(result.is_err(), "byte {at}");
        }
        assert_eq!(decrypt("no", &[identity]), Err(AgeError::NotAge));
    }

    #[test]
    fn a_point_of_low_order_is_an_error_on_both_sides() {
        let mut randomness = Seeded(10);
        let identity = Identity::generate(&mut randomness);
        let text = encrypt(b"data key", &[identity.recipient()], &mut randomness).unwrap();
        let header = String::from_utf8_lossy(&dearmor(&text).unwrap()).into_owned();
        let share = header.lines().nth(1).unwrap().rsplit(' ').next().unwrap().to_owned();
        for point in crate::age::low_order_points() {
            let rejected = encrypt(b"data key", &[Recipient(point)], &mut randomness);
            assert!(matches!(rejected, Err(AgeError::LowOrder(_))), "{point:02x?}");
            // If the share in a file is a point of low order, no identity can open the file.
            let bytes = dearmor(&text).unwrap();
            let at = bytes.windows(share.len()).position(|part| part == share.as_bytes()).unwrap();
            let mut broken = bytes.clone();
            let planted = STANDARD_NO_PAD.encode(point);
            broken[at..at + share.len()].copy_from_slice(planted.as_bytes());
            let opened = decrypt(&armor(&broken), std::slice::from_ref(&identity));
            assert_eq!(opened, Err(AgeError::NoMatch));
        }
    }

    #[test]
    fn other_kinds_of_recipients_are_named() {
        let file = b"age-encryption.org/v1\n-> scrypt c2FsdA 18\nYWJj\n--- YWJj\n0123";
        assert_eq!(
            decrypt(&armor(file), &[Identity::generate(&mut Seeded(9))]),
            Err(AgeError::NoX25519("scrypt".to_owned()))
        );
    }
}
