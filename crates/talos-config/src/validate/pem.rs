//! Checks of the content of a PEM text by the structure of its DER.
//!
//! The structure is enough to distinguish a certificate from a typing error. This module does not verify signatures or
//! keys.

use crate::format::decode_base64;

const SEQUENCE: u8 = 0x30;
const BIT_STRING: u8 = 0x03;
const OCTET_STRING: u8 = 0x04;
const INTEGER: u8 = 0x02;

/// Whether the text contains at least one certificate.
pub(super) fn has_certificate(text: &str) -> bool {
    blocks(text).any(|(label, der)| label == "CERTIFICATE" && is_certificate(&der))
}

pub(super) fn check_certificate(text: &str) -> Result<(), &'static str> {
    match blocks(text).next() {
        None => Err("failed to parse PEM block"),
        Some((_, der)) if is_certificate(&der) => Ok(()),
        Some(_) => Err("failed to parse certificate"),
    }
}

/// Checks that the text contains a private key in PKCS#8 form.
pub(super) fn check_private_key(text: &str) -> Result<(), &'static str> {
    let Some((_, der)) = blocks(text).next() else {
        return Err("failed to parse PEM block");
    };
    let parts: Vec<u8> = sequence(&der)
        .map(|inner| items(inner).map(|(tag, _)| tag).take(3).collect())
        .unwrap_or_default();
    if parts == [INTEGER, SEQUENCE, OCTET_STRING] { Ok(()) } else { Err("failed to parse key") }
}

fn is_certificate(der: &[u8]) -> bool {
    let parts: Vec<u8> =
        sequence(der).map(|inner| items(inner).map(|(tag, _)| tag).collect()).unwrap_or_default();
    parts == [SEQUENCE, SEQUENCE, BIT_STRING]
}

/// PEM blocks of a text.
fn blocks(text: &str) -> impl Iterator<Item = (&str, Vec<u8>)> {
    let mut rest = text;
    std::iter::from_fn(move || {
        loop {
            let (_, after) = rest.split_once("-----BEGIN ")?;
            let (label, after) = after.split_once("-----")?;
            let end = format!("-----END {label}-----");
            rest = after;
            let Some((body, after)) = after.split_once(&end) else {
                continue;
            };
            rest = after;
            let body: String = body.split_whitespace().collect();
            if let Ok(der) = decode_base64(&body) {
                return Some((label, der));
            }
        }
    })
}

/// Content of a sequence that consists of all bytes of `der`.
fn sequence(der: &[u8]) -> Option<&[u8]> {
    let (tag, content, rest) = item(der)?;
    (tag == SEQUENCE && rest.is_empty()).then_some(content)
}

fn items(mut der: &[u8]) -> impl Iterator<Item = (u8, &[u8])> {
    std::iter::from_fn(move || {
        let (tag, content, rest) = item(der)?;
        der = rest;
        Some((tag, content))
    })
}

fn item(der: &[u8]) -> Option<(u8, &[u8], &[u8])> {
    let [tag, first, rest @ ..] = der else {
        return None;
    };
    let (length, rest) = if *first < 0x80 {
        (usize::from(*first), rest)
    } else {
        let count = usize::from(first & 0x7f);
        if count == 0 || count > 4 {
            return None;
        }
        let (digits, rest) = rest.split_at_checked(count)?;
        let length = digits.iter().fold(0, |length, digit| length << 8 | usize::from(*digit));
        (length, rest)
    };
    let (content, rest) = rest.split_at_checked(length)?;
    Some((*tag, content, rest))
}
