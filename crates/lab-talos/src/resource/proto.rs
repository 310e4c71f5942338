//! Protobuf encoding of specs. Go clients decode typed resources from it.

use std::net::IpAddr;

use prost::encoding::{WireType, encode_key, encode_varint};
use serde_json::Value;

/// Key in a spec, field number and encoding.
pub(crate) type Field = (&'static str, u32, Form);

/// Protobuf encoding of a value of a spec.
#[derive(Clone, Copy)]
pub(crate) enum Form {
    Text,
    /// Boolean or integer.
    Number,
    /// Enumeration: each name with its number.
    Enum(&'static [(&'static str, u64)]),
    Address,
    Prefix,
    /// Address of an IPv4 prefix without the prefix length, as the kernel reports `local`.
    Host,
    /// Hardware address, which the spec contains as text.
    Mac,
    Message(&'static [Field]),
    /// Repeated field, with the encoding of its elements.
    Each(&'static Self),
    /// Map of strings.
    Table,
    /// Any value as `google.protobuf.Struct`.
    Struct,
}

pub(crate) fn encode(spec: &Value, fields: &[Field]) -> Vec<u8> {
    let mut bytes = vec![];
    for (key, number, form) in fields {
        // With an empty key, the whole spec is encoded as the only field. This is used for specs that are not mappings.
        let value = if key.is_empty() { Some(spec) } else { spec.get(*key) };
        if let Some(value) = value {
            put(&mut bytes, *number, *form, value);
        }
    }
    bytes
}

fn put(bytes: &mut Vec<u8>, number: u32, form: Form, value: &Value) {
    match form {
        Form::Text => {
            if let Some(text) = value.as_str().filter(|text| !text.is_empty()) {
                put_bytes(bytes, number, text.as_bytes());
            }
        }
        Form::Number => {
            let number_of = value.as_u64().or(value.as_bool().map(u64::from));
            put_number(bytes, number, number_of.unwrap_or_default());
        }
        Form::Enum(names) => {
            let name = value.as_str().unwrap_or_default();
            let known = names.iter().find(|(known, _)| *known == name);
            put_number(bytes, number, known.map_or(0, |known| known.1));
        }
        Form::Address => {
            if let Some(address) = value.as_str().and_then(|text| text.parse().ok()) {
                put_bytes(bytes, number, &address_message(address));
            }
        }
        Form::Prefix => {
            let parts = value.as_str().and_then(|text| text.split_once('/'));
            if let Some((address, length)) = parts
                && let (Ok(address), Ok(length)) = (address.parse(), length.parse())
            {
                let mut message = address_message(address);
                put_number(&mut message, 2, length);
                put_bytes(bytes, number, &message);
            }
        }
        Form::Host => {
            let host = value.as_str().and_then(|text| text.split('/').next()?.parse().ok());
            if let Some(host @ IpAddr::V4(_)) = host {
                put_bytes(bytes, number, &address_message(host));
            }
        }
        Form::Mac => {
            let pairs = value.as_str().unwrap_or_default().split(':');
            let mac: Vec<u8> = pairs.filter_map(|pair| u8::from_str_radix(pair, 16).ok()).collect();
            put_bytes(bytes, number, &mac);
        }
        Form::Message(fields) => put_bytes(bytes, number, &encode(value, fields)),
        Form::Each(form) => {
            for item in value.as_array().into_iter().flatten() {
                put(bytes, number, *form, item);
            }
        }
        Form::Table => {
            for (key, value) in value.as_object().into_iter().flatten() {
                let mut entry = vec![];
                put_bytes(&mut entry, 1, key.as_bytes());
                put_bytes(&mut entry, 2, value.as_str().unwrap_or_default().as_bytes());
                put_bytes(bytes, number, &entry);
            }
        }
        Form::Struct => put_bytes(bytes, number, &structure(value)),
    }
}

fn put_bytes(bytes: &mut Vec<u8>, number: u32, content: &[u8]) {
    encode_key(number, WireType::LengthDelimited, bytes);
    encode_varint(content.len() as u64, bytes);
    bytes.extend(content);
}

/// Encodes an integer. Zero is omitted, because it is the default.
fn put_number(bytes: &mut Vec<u8>, number: u32, value: u64) {
    if value != 0 {
        encode_key(number, WireType::Varint, bytes);
        encode_varint(value, bytes);
    }
}

fn address_message(address: IpAddr) -> Vec<u8> {
    let mut message = vec![];
    match address {
        IpAddr::V4(address) => put_bytes(&mut message, 1, &address.octets()),
        IpAddr::V6(address) => put_bytes(&mut message, 1, &address.octets()),
    }
    message
}

fn structure(value: &Value) -> Vec<u8> {
    let mut message = vec![];
    for (key, value) in value.as_object().into_iter().flatten() {
        let mut entry = vec![];
        put_bytes(&mut entry, 1, key.as_bytes());
        put_bytes(&mut entry, 2, &any(value));
        put_bytes(&mut message, 1, &entry);
    }
    message
}

/// Value as `google.protobuf.Value`.
fn any(value: &Value) -> Vec<u8> {
    let mut message = vec![];
    match value {
        Value::Null => {
            encode_key(1, WireType::Varint, &mut message);
            encode_varint(0, &mut message);
        }
        Value::Number(number) => {
            encode_key(2, WireType::SixtyFourBit, &mut message);
            message.extend(number.as_f64().unwrap_or_default().to_le_bytes());
        }
        Value::String(text) => put_bytes(&mut message, 3, text.as_bytes()),
        Value::Bool(flag) => {
            encode_key(4, WireType::Varint, &mut message);
            encode_varint(u64::from(*flag), &mut message);
        }
        Value::Object(_) => put_bytes(&mut message, 5, &structure(value)),
        Value::Array(items) => {
            let mut list = vec![];
            for item in items {
                put_bytes(&mut list, 1, &any(item));
            }
            put_bytes(&mut message, 6, &list);
        }
    }
    message
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn fields_are_encoded_with_their_numbers() {
        const INNER: &[Field] = &[("ready", 1, Form::Number)];
        const FIELDS: &[Field] = &[
            ("stage", 1, Form::Enum(&[("running", 4)])),
            ("status", 2, Form::Message(INNER)),
            ("names", 3, Form::Each(&Form::Text)),
            ("at", 4, Form::Prefix),
        ];
        let spec = json!({
            "stage": "running", "status": {"ready": true}, "names": ["a", "b"], "at": "10.0.0.1/24",
        });
        let wanted: &[u8] =
            b"\x08\x04\x12\x02\x08\x01\x1a\x01a\x1a\x01b\x22\x08\x0a\x04\x0a\x00\x00\x01\x10\x18";
        assert_eq!(encode(&spec, FIELDS), wanted);
        assert!(encode(&json!({}), FIELDS).is_empty());
    }
}
