//! Scalars: conversion of any notation to the canonical notation of Talos.
//!
//! Each [`Format`] parses a scalar as Go's YAML decoder does for the corresponding type, and returns a scalar in
//! canonical form. The style marks strings, so that the emitter quotes a string such as `off`, but not a boolean.

pub(crate) mod address;
pub(crate) mod duration;
pub(crate) mod size;
pub(crate) mod url;

use base64::Engine as _;
use base64::alphabet;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
pub(crate) use talmox_yaml::build::text;
use talmox_yaml::{Node, Resolved, Scalar};

use crate::schema::{Enum, Format, Release};

/// Text that replaces a redacted secret.
pub(crate) const REDACTED: &str = "******";

/// Standard base64 as Go decodes it: padding is required, and trailing bits are ignored.
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &alphabet::STANDARD,
    GeneralPurposeConfig::new()
        .with_decode_allow_trailing_bits(true)
        .with_decode_padding_mode(DecodePaddingMode::RequireCanonical),
);

/// Reason why a scalar cannot be decoded.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Mismatch {
    /// Go's decoder cannot convert this scalar to this type.
    Type,
    /// The parser of the type rejects the value.
    Value(String),
}

/// Decodes a scalar that is not null.
pub(crate) fn read(format: Format, scalar: &Scalar, release: Release) -> Result<Node, Mismatch> {
    let source = scalar.text.as_str();
    let newer = release >= Release::V1_13;
    let parsed = match format {
        Format::Text => return Ok(text(source)),
        Format::Bool => return read_bool(scalar).map(|value| Node::plain(value.to_string())),
        Format::Int { min, max, .. } => {
            return read_int(scalar, min, max, newer).map(|value| Node::plain(value.to_string()));
        }
        Format::FileMode => {
            let mode = read_int(scalar, 0, i128::from(u32::MAX), newer)?;
            return Ok(Node::plain(format!("0o{mode:o}")));
        }
        Format::PortRange => return read_port_range(scalar, newer),
        Format::Duration => return read_duration(scalar, newer),
        Format::DiskSize => {
            return size::parse_bytes(source).map(size::write_disk_size).or_value();
        }
        Format::ByteSize => size::check_byte_size(source, newer).map(|()| source.to_owned()),
        Format::Size => size::check_size(source, newer).map(|()| source.to_owned()),
        Format::SizeCondition => size::check_condition(source).map(|()| source.trim().to_owned()),
        Format::Url | Format::Endpoint => url::Url::parse(source).map(|url| url.to_string()),
        Format::Addr => address::canonical_addr(source),
        Format::Prefix => address::canonical_prefix(source),
        Format::AddrPort => address::canonical_addr_port(source),
        Format::Mac => address::canonical_mac(source),
        Format::Secret if source == REDACTED => Ok(source.to_owned()),
        Format::Base64 | Format::Secret => canonical_base64(source),
        Format::Cel => Ok(source.to_owned()),
        Format::Enum(words) => read_word(words, source, release),
    };
    parsed.map(text).or_value()
}

/// Output form of Go's zero value of this type.
pub(crate) fn zero(format: Format) -> Node {
    match format {
        Format::Bool => Node::plain("false"),
        Format::Int { .. } | Format::PortRange => Node::plain("0"),
        Format::FileMode => Node::plain("0o0"),
        Format::Duration => text("0s"),
        Format::DiskSize => text("0 B"),
        Format::Enum(words) => text(match words.zero {
            Some(word) => word.to_owned(),
            None => format!("{}(0)", words.name),
        }),
        _ => text(""),
    }
}

/// Whether a canonical scalar is Go's zero value. A byte slice that is given is never zero.
pub(crate) fn is_zero(format: Format, node: &Node) -> bool {
    match format {
        Format::Mac | Format::Base64 | Format::Secret | Format::SizeCondition => false,
        _ => node.as_str() == zero(format).as_str(),
    }
}

/// Name of the type in Go. Messages contain it.
pub(crate) fn go_name(format: Format) -> String {
    match format {
        Format::Text | Format::Base64 | Format::Secret => "string".to_owned(),
        Format::Bool => "bool".to_owned(),
        Format::Int { go, .. } => go.to_owned(),
        Format::Duration => "time.Duration".to_owned(),
        Format::FileMode => "v1alpha1.FileMode".to_owned(),
        Format::DiskSize => "v1alpha1.DiskSize".to_owned(),
        Format::ByteSize => "block.ByteSize".to_owned(),
        Format::Size => "block.Size".to_owned(),
        Format::SizeCondition => "v1alpha1.InstallDiskSizeMatcher".to_owned(),
        Format::Url => "meta.URL".to_owned(),
        Format::Endpoint => "v1alpha1.Endpoint".to_owned(),
        Format::Addr => "netip.Addr".to_owned(),
        Format::Prefix => "netip.Prefix".to_owned(),
        Format::AddrPort => "netip.AddrPort".to_owned(),
        Format::Mac => "nethelpers.HardwareAddr".to_owned(),
        Format::PortRange => "network.PortRange".to_owned(),
        Format::Cel => "cel.Expression".to_owned(),
        Format::Enum(words) => format!("nethelpers.{}", words.name),
    }
}

/// Decodes base64 as Go does. Line breaks are skipped.
pub(crate) fn decode_base64(source: &str) -> Result<Vec<u8>, String> {
    let compact: String = source.chars().filter(|c| !matches!(c, '\r' | '\n')).collect();
    BASE64.decode(&compact).map_err(|error| {
        let at = match error {
            base64::DecodeError::InvalidByte(at, _) => at,
            _ => compact.len(),
        };
        format!("illegal base64 data at input byte {at}")
    })
}

fn canonical_base64(source: &str) -> Result<String, String> {
    decode_base64(source).map(|bytes| BASE64.encode(bytes))
}

fn read_bool(scalar: &Scalar) -> Result<bool, Mismatch> {
    match scalar.resolve() {
        Resolved::Bool(value) => Ok(value),
        Resolved::Text => match scalar.text.as_str() {
            "y" | "Y" | "yes" | "Yes" | "YES" | "on" | "On" | "ON" => Ok(true),
            "n" | "N" | "no" | "No" | "NO" | "off" | "Off" | "OFF" => Ok(false),
            _ => Err(Mismatch::Type),
        },
        _ => Err(Mismatch::Type),
    }
}

/// Parses a whole number. Up to Talos 1.12, the fraction of a number is truncated.
fn read_int(scalar: &Scalar, min: i128, max: i128, lossless: bool) -> Result<i128, Mismatch> {
    let value = match scalar.resolve() {
        Resolved::Int(value) => value,
        Resolved::Float(value) if lossless && value.fract() != 0.0 => return Err(Mismatch::Type),
        #[expect(clippy::cast_possible_truncation, reason = "the value is checked before")]
        Resolved::Float(value) if value.abs() < 2f64.powi(64) => value as i128,
        _ => return Err(Mismatch::Type),
    };
    if (min..=max).contains(&value) { Ok(value) } else { Err(Mismatch::Type) }
}

/// Parses a duration. It must be a text; from Talos 1.13 on, the number 0 is also accepted.
fn read_duration(scalar: &Scalar, newer: bool) -> Result<Node, Mismatch> {
    if newer && scalar.resolve() == Resolved::Int(0) {
        return Ok(text(duration::write(0)));
    }
    if scalar.resolve() != Resolved::Text {
        return Err(Mismatch::Type);
    }
    duration::parse(&scalar.text)
        .map(|nanoseconds| text(duration::write(nanoseconds)))
        .ok_or(Mismatch::Type)
}

fn read_port_range(scalar: &Scalar, lossless: bool) -> Result<Node, Mismatch> {
    if let Ok(port) = read_int(scalar, 0, i128::from(u16::MAX), lossless) {
        return Ok(Node::plain(port.to_string()));
    }
    let source = scalar.text.as_str();
    let range =
        source.split_once('-').and_then(|(low, high)| Some((parse_port(low)?, parse_port(high)?)));
    match range {
        Some((low, high)) if low == high => Ok(Node::plain(low.to_string())),
        Some((low, high)) => Ok(text(format!("{low}-{high}"))),
        None => Err(Mismatch::Value(format!("invalid port range: {source:?}"))),
    }
}

pub(crate) fn parse_port(text: &str) -> Option<u16> {
    let is_digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    if is_digits { text.parse().ok() } else { None }
}

fn read_word(words: &Enum, source: &str, release: Release) -> Result<String, String> {
    let unknown = if release < Release::V1_13 { words.later } else { words.gone };
    let latest = if release < Release::V1_14 { words.latest } else { &[] };
    let known = |word: &&&str| !unknown.contains(word) && !latest.contains(word);
    if words.legacy {
        let by_number = parse_port(source).and_then(|n| words.values.get(usize::from(n)));
        let by_name = words.values.iter().find(|word| **word == source);
        let first = words.values.first().filter(|_| source.is_empty());
        return by_name
            .or(first)
            .or(by_number)
            .map(|word| (*word).to_owned())
            .ok_or_else(|| format!("invalid fail_over_mac value {source}"));
    }
    if let Some((low, high)) = words.numbers {
        let number = source.parse::<u32>().ok().filter(|n| n.to_string() == source);
        if number.is_some_and(|number| (low..=high).contains(&number)) {
            return Ok(source.to_owned());
        }
    }
    let lower = source.to_lowercase();
    words
        .values
        .iter()
        .filter(known)
        .find(|word| word.to_ascii_lowercase() == lower)
        .map(|word| (*word).to_owned())
        .ok_or_else(|| format!("{source} does not belong to {} values", words.name))
}

trait OrValue<T> {
    fn or_value(self) -> Result<T, Mismatch>;
}

impl<T> OrValue<T> for Result<T, String> {
    fn or_value(self) -> Result<T, Mismatch> {
        self.map_err(Mismatch::Value)
    }
}
