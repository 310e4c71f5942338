//! DER encoding, limited to the types that certificates and keys contain.

use crate::time::{Civil, UnixTime};

pub(crate) const BOOLEAN: u8 = 0x01;
pub(crate) const INTEGER: u8 = 0x02;
pub(crate) const BIT_STRING: u8 = 0x03;
pub(crate) const OCTET_STRING: u8 = 0x04;
pub(crate) const OID: u8 = 0x06;
const UTF8_STRING: u8 = 0x0c;
const PRINTABLE_STRING: u8 = 0x13;
const UTC_TIME: u8 = 0x17;
const GENERALIZED_TIME: u8 = 0x18;
pub(crate) const SEQUENCE: u8 = 0x30;
pub(crate) const SET: u8 = 0x31;

/// Context-specific tag. `constructed` is set if the value contains other values.
pub(crate) const fn context(number: u8, constructed: bool) -> u8 {
    0x80 | number | if constructed { 0x20 } else { 0 }
}

/// Encodes a value: tag, length and content.
pub(crate) fn value(tag: u8, content: &[u8]) -> Vec<u8> {
    let mut out = vec![tag];
    let length = content.len();
    match u8::try_from(length) {
        Ok(short) if short < 0x80 => out.push(short),
        _ => {
            let bytes = length.to_be_bytes();
            let first = bytes.iter().position(|byte| *byte != 0).unwrap_or_default();
            let bytes = &bytes[first..];
            out.push(0x80 | u8::try_from(bytes.len()).expect("invariant: eight bytes at most"));
            out.extend(bytes);
        }
    }
    out.extend(content);
    out
}

pub(crate) fn sequence(parts: &[&[u8]]) -> Vec<u8> {
    value(SEQUENCE, &parts.concat())
}

/// Encodes a non-negative number, which is given as big-endian bytes.
pub(crate) fn integer(bytes: &[u8]) -> Vec<u8> {
    let first = bytes.iter().position(|byte| *byte != 0);
    let digits = first.map_or(&[0][..], |first| &bytes[first..]);
    let mut content = vec![];
    if digits[0] >= 0x80 {
        content.push(0);
    }
    content.extend(digits);
    value(INTEGER, &content)
}

/// Encodes a bit string that consists of whole bytes.
pub(crate) fn bit_string(bytes: &[u8]) -> Vec<u8> {
    value(BIT_STRING, &[&[0], bytes].concat())
}

/// Encodes a text: as PrintableString if possible, otherwise as UTF8String, as Go does.
pub(crate) fn string(text: &str) -> Vec<u8> {
    let is_printable = |c: char| {
        c.is_ascii_alphanumeric()
            || matches!(c, ' ' | '\'' | '('..=')' | '+'..='/' | ':' | '=' | '?')
    };
    let tag = if text.chars().all(is_printable) { PRINTABLE_STRING } else { UTF8_STRING };
    value(tag, text.as_bytes())
}

/// Encodes a time. The form differs for times from 2050 on.
pub(crate) fn time(time: UnixTime) -> Vec<u8> {
    let c = time.civil();
    let rest = format!("{:02}{:02}{:02}{:02}{:02}Z", c.month, c.day, c.hour, c.minute, c.second);
    if (1950..2050).contains(&c.year) {
        value(UTC_TIME, format!("{:02}{rest}", c.year % 100).as_bytes())
    } else {
        value(GENERALIZED_TIME, format!("{:04}{rest}", c.year).as_bytes())
    }
}

pub(crate) fn read_time(tag: u8, content: &[u8]) -> Option<UnixTime> {
    let text = std::str::from_utf8(content).ok()?.strip_suffix('Z')?;
    if !text.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let (year, rest) = match (tag, text.len()) {
        (UTC_TIME, 12) => {
            let year: i64 = text[..2].parse().ok()?;
            (if year < 50 { 2000 + year } else { 1900 + year }, &text[2..])
        }
        (GENERALIZED_TIME, 14) => (text[..4].parse().ok()?, &text[4..]),
        _ => return None,
    };
    let part = |at: usize| rest[at..at + 2].parse::<i64>().ok();
    let civil = Civil {
        year,
        month: part(0).filter(|month| (1..=12).contains(month))?,
        day: part(2)?,
        hour: part(4)?,
        minute: part(6)?,
        second: part(8)?,
    };
    Some(civil.to_unix())
}

/// Parser of consecutive values.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn peek(&self) -> Option<u8> {
        self.0.first().copied()
    }

    /// Tag and content of the next value.
    pub(crate) fn any(&mut self) -> Option<(u8, &'a [u8])> {
        let (whole, header) = self.measure()?;
        let (value, rest) = self.0.split_at_checked(whole)?;
        self.0 = rest;
        Some((value[0], &value[header..]))
    }

    /// Next value, including its tag and length.
    pub(crate) fn whole(&mut self) -> Option<&'a [u8]> {
        let (whole, _) = self.measure()?;
        let (value, rest) = self.0.split_at_checked(whole)?;
        self.0 = rest;
        Some(value)
    }

    pub(crate) fn expect(&mut self, tag: u8) -> Option<&'a [u8]> {
        if self.peek()? != tag {
            return None;
        }
        self.any().map(|(_, content)| content)
    }

    pub(crate) fn sequence(&mut self) -> Option<Self> {
        self.expect(SEQUENCE).map(Self)
    }

    fn measure(&self) -> Option<(usize, usize)> {
        let first = usize::from(*self.0.get(1)?);
        if first < 0x80 {
            return Some((2 + first, 2));
        }
        let count = first & 0x7f;
        if count == 0 || count > 4 {
            return None;
        }
        let bytes = self.0.get(2..2 + count)?;
        let length = bytes.iter().fold(0, |sum, byte| sum << 8 | usize::from(*byte));
        Some((2 + count + length, 2 + count))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn der_values_round_trip() {
        for length in [0, 127, 128, 255, 256, 70_000] {
            let content = vec![1; length];
            let bytes = value(OCTET_STRING, &content);
            let mut reader = Reader::new(&bytes);
            assert_eq!(reader.expect(OCTET_STRING), Some(content.as_slice()));
            assert!(reader.is_empty());
        }
        assert_eq!(integer(&[0, 0, 0x80]), [2, 2, 0, 0x80]);
        assert_eq!(integer(&[0]), [2, 1, 0]);
        assert_eq!(string("os:admin")[0], PRINTABLE_STRING);
        assert_eq!(string("a_b")[0], UTF8_STRING);
    }

    #[test]
    fn times_use_another_type_from_2050_on() {
        for text in ["2026-11-15T02:38:23Z", "2049-12-31T23:59:59Z", "2050-01-01T00:00:00Z"] {
            let expected = UnixTime::parse(text).unwrap();
            let bytes = time(expected);
            let (tag, content) = Reader::new(&bytes).any().unwrap();
            assert_eq!(read_time(tag, content), Some(expected));
            assert_eq!(tag == GENERALIZED_TIME, text.starts_with("2050"));
        }
    }

    proptest::proptest! {
        #[test]
        fn der_parsing_never_panics(bytes in proptest::collection::vec(0_u8.., 0..40)) {
            let mut reader = Reader::new(&bytes);
            while let Some((tag, content)) = reader.any() {
                let _time = read_time(tag, content);
            }
        }
    }
}
