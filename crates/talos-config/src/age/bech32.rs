//! Bech32 (BIP 173), the encoding of age keys. The limit of 90 characters does not apply.

use zeroize::Zeroizing;

const ALPHABET: &[u8; 32] = b"qpzry9x8gf2tvdw0s3jn54khce6mua7l";
const CHECKSUM_LENGTH: usize = 6;

/// Encodes bytes in lower case. `prefix` must be lower-case ASCII.
pub(super) fn encode(prefix: &str, bytes: &[u8]) -> String {
    let values = regroup(bytes, 8, 5, true).expect("invariant: padding always fits");
    let mut values = Zeroizing::new(values);
    let checksum = polymod(prefix, values.iter().copied().chain([0; CHECKSUM_LENGTH])) ^ 1;
    for index in (0..CHECKSUM_LENGTH).rev() {
        let value = (checksum >> (5 * index)) & 31;
        values.push(u8::try_from(value).expect("invariant: five bits fit a byte"));
    }
    let mut text = String::with_capacity(prefix.len() + 1 + values.len());
    text.push_str(prefix);
    text.push('1');
    text.extend(values.iter().map(|value| char::from(ALPHABET[usize::from(*value)])));
    text
}

/// Decodes a text that is completely in upper case or completely in lower case. The returned prefix is in lower case.
pub(super) fn decode(text: &str) -> Option<(String, Vec<u8>)> {
    let mixed = text.bytes().any(|b| b.is_ascii_lowercase())
        && text.bytes().any(|b| b.is_ascii_uppercase());
    if mixed || !text.is_ascii() {
        return None;
    }
    // The text may be a private key, so its memory is overwritten.
    let text = Zeroizing::new(text.to_ascii_lowercase());
    let (prefix, data) = text.rsplit_once('1')?;
    let values: Zeroizing<Vec<u8>> = data
        .bytes()
        .map(|byte| ALPHABET.iter().position(|known| *known == byte))
        .map(|position| position.and_then(|position| u8::try_from(position).ok()))
        .collect::<Option<_>>()
        .map(Zeroizing::new)?;
    if prefix.is_empty()
        || values.len() < CHECKSUM_LENGTH
        || polymod(prefix, values.iter().copied()) != 1
    {
        return None;
    }
    let bytes = regroup(&values[..values.len() - CHECKSUM_LENGTH], 5, 8, false)?;
    Some((prefix.to_owned(), bytes))
}

fn polymod(prefix: &str, values: impl Iterator<Item = u8>) -> u32 {
    const GENERATOR: [u32; 5] = [0x3b6a_57b2, 0x2650_8e6d, 0x1ea1_19fa, 0x3d42_33dd, 0x2a14_62b3];
    let high = prefix.bytes().map(|byte| byte >> 5);
    let low = prefix.bytes().map(|byte| byte & 31);
    let all = high.chain([0]).chain(low).chain(values);
    all.fold(1, |checksum: u32, value| {
        let top = checksum >> 25;
        let shifted = ((checksum & 0x01ff_ffff) << 5) ^ u32::from(value);
        (0..5).filter(|bit| (top >> bit) & 1 == 1).fold(shifted, |sum, bit| sum ^ GENERATOR[bit])
    })
}

/// Converts values of `from` bits to values of `to` bits.
fn regroup(values: &[u8], from: u32, to: u32, pad: bool) -> Option<Vec<u8>> {
    // The capacity is enough for the result, because a vector that grows leaves copies of secrets in memory.
    let mut out = Vec::with_capacity(values.len() * 2 + CHECKSUM_LENGTH);
    let (mut buffer, mut bits) = (0_u32, 0);
    let mask = (1 << to) - 1;
    for value in values {
        buffer = (buffer << from) | u32::from(*value);
        bits += from;
        while bits >= to {
            bits -= to;
            out.push(u8::try_from((buffer >> bits) & mask).ok()?);
        }
        buffer &= (1 << bits) - 1;
    }
    if pad && bits > 0 {
        out.push(u8::try_from((buffer << (to - bits)) & mask).ok()?);
    } else if bits >= from || buffer != 0 {
        return None;
    }
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_texts_are_decoded() {
        for text in ["A12UEL5L", "abcdef1qpzry9x8gf2tvdw0s3jn54khce6mua7lmqqqxw"] {
            let (prefix, bytes) = decode(text).expect(text);
            assert_eq!(encode(&prefix, &bytes), text.to_lowercase());
        }
        for text in ["", "1", "A1G7SGD8", "a12UEL5L", "pzry9x0s0muk", "li1dgmt3", "a12uel5x"] {
            assert_eq!(decode(text), None, "{text}");
        }
    }
}
