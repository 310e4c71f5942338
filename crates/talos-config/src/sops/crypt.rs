//! Encryption and decryption of all values of a file, and the MAC over the values.

use aws_lc_rs::digest;
use talmox_yaml::Node;

use super::cipher::{DataKey, Nonces, OpenError, Plain, ValueKind, is_sealed};
use super::scalar::{canonical, node_of, plain_of};
use super::walk::{Place, Visit};
use super::{Scope, Settings, SopsError};
use crate::format::text as string;
use crate::random::Randomness;

/// Prefix of a MAC that covers only the encrypted values. With this prefix, the MAC differs from a MAC over all values.
/// The prefix is a constant of `sops`.
const ONLY_ENCRYPTED: [u8; 32] = [
    0x8a, 0x3f, 0xd2, 0xad, 0x54, 0xce, 0x66, 0x52, 0x7b, 0x10, 0x34, 0xf3, 0xd1, 0x47, 0xbe, 0x0b,
    0x0b, 0x97, 0x5b, 0x3b, 0xf4, 0x4f, 0x72, 0xc6, 0xfd, 0xad, 0xec, 0x81, 0x76, 0xf2, 0x7d, 0x69,
];

/// Digest over all values in order, or over the encrypted values only.
pub(super) struct MacDigest {
    context: digest::Context,
    only_encrypted: bool,
}

impl MacDigest {
    pub(super) fn new(settings: &Settings) -> Self {
        let mut context = digest::Context::new(&digest::SHA512);
        if settings.mac_only_encrypted {
            context.update(&ONLY_ENCRYPTED);
        }
        Self { context, only_encrypted: settings.mac_only_encrypted }
    }

    fn add(&mut self, plain: &Plain, encrypted: bool) {
        if plain.kind != ValueKind::Comment && (encrypted || !self.only_encrypted) {
            self.context.update(&plain.bytes);
        }
    }

    pub(super) fn finish(self) -> String {
        let digest = self.context.finish();
        digest.as_ref().iter().map(|b| format!("{b:02X}")).collect()
    }
}

/// Visitor that converts scalars to the notation that `sops` writes.
pub(super) struct Normal;

impl Visit for Normal {
    fn leaf(&mut self, leaf: &Node, place: &Place) -> Result<Node, SopsError> {
        let plain = plain_at(leaf, place)?;
        node_of(&plain).ok_or_else(|| SopsError::Damaged { path: place.describe() })
    }
}

pub(super) struct Opening<'a> {
    pub(super) data_key: &'a DataKey,
    pub(super) settings: &'a Settings,
    pub(super) nonces: &'a mut Nonces,
    pub(super) digest: MacDigest,
}

impl Visit for Opening<'_> {
    fn leaf(&mut self, leaf: &Node, place: &Place) -> Result<Node, SopsError> {
        let path = || place.describe();
        let comment = leaf.as_comment();
        let encrypted = self.settings.scope.covers(&place.path, &place.comments, comment.is_some());
        let plain = match comment {
            // Comments in older files are not encrypted.
            Some(text) if !encrypted || !is_sealed(text) => Plain::new(ValueKind::Comment, text),
            _ if encrypted => {
                let is_text = leaf.describe() == "text";
                let text = leaf.as_str().filter(|_| is_text || comment.is_some());
                let text = text.ok_or_else(|| SopsError::NotEncrypted { path: path() })?;
                let opened = self.data_key.open(text, &place.context(), self.nonces);
                let opened = opened.map_err(|error| match error {
                    OpenError::NotSealed if !is_sealed(text) => {
                        SopsError::NotEncrypted { path: path() }
                    }
                    _ => SopsError::Damaged { path: path() },
                })?;
                canonical(opened).ok_or_else(|| SopsError::Damaged { path: path() })?
            }
            _ => plain_at(leaf, place)?,
        };
        self.digest.add(&plain, encrypted);
        node_of(&plain).ok_or_else(|| SopsError::Damaged { path: path() })
    }
}

pub(super) struct Sealing<'a> {
    pub(super) data_key: &'a DataKey,
    pub(super) settings: &'a Settings,
    pub(super) nonces: &'a Nonces,
    pub(super) randomness: &'a mut dyn Randomness,
    pub(super) digest: MacDigest,
}

impl Visit for Sealing<'_> {
    fn leaf(&mut self, leaf: &Node, place: &Place) -> Result<Node, SopsError> {
        let plain = plain_at(leaf, place)?;
        let is_comment = plain.kind == ValueKind::Comment;
        let encrypted = self.settings.scope.covers(&place.path, &place.comments, is_comment);
        self.digest.add(&plain, encrypted);
        if !encrypted {
            return Ok(node_of(&plain).unwrap_or_else(|| leaf.clone()));
        }
        let context = place.context();
        let sealed = self.data_key.seal(&plain, &context, self.nonces, self.randomness);
        if let Scope::UnencryptedCommentRegex(regex) = &self.settings.scope
            && is_comment
            && regex.is_match(&sealed)
        {
            return Err(SopsError::BadPattern(regex.as_str().to_owned()));
        }
        Ok(string(sealed))
    }
}

fn plain_at(leaf: &Node, place: &Place) -> Result<Plain, SopsError> {
    let unsupported = |what| SopsError::Unsupported { path: place.describe(), what };
    let scalar = leaf.as_scalar().ok_or_else(|| unsupported("no scalar"))?;
    let plain = plain_of(leaf, scalar).map_err(unsupported)?;
    plain.ok_or_else(|| unsupported("a null with a tag"))
}
