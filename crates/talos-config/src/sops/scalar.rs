//! Conversion between YAML scalars and the typed values that `sops` encrypts and authenticates.
//!
//! `sops` decodes a scalar as go-yaml does for an unknown type, and writes the decoded value: `0644` becomes `420`, and
//! a date becomes a timestamp. The MAC covers only the converted form.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use talmox_yaml::{BINARY_TAG, Node, Resolved, Scalar, Style, TIMESTAMP_TAG, timestamp};
use zeroize::Zeroize as _;

use super::cipher::{Plain, ValueKind};
use crate::format::text as string;

const STRING_TAG: &str = talmox_yaml::STRING_TAG;
/// Line length of binary values in go-yaml.
const BINARY_LINE: usize = 70;

/// Typed value of a scalar; `None` for null. The error is the kind of the unsupported value.
pub(super) fn plain_of(node: &Node, scalar: &Scalar) -> Result<Option<Plain>, &'static str> {
    if let Some(comment) = node.as_comment() {
        return Ok(Some(Plain::new(ValueKind::Comment, comment)));
    }
    let text = scalar.text.as_str();
    match node.tag.as_deref() {
        Some(BINARY_TAG) => {
            let base64: String = text.split_whitespace().collect();
            let bytes = STANDARD.decode(base64).map_err(|_| "broken base64")?;
            return Ok(Some(Plain::new(ValueKind::Text, bytes)));
        }
        Some(TIMESTAMP_TAG) => {
            let full = timestamp(text).ok_or("a broken timestamp")?;
            return Ok(Some(Plain::new(ValueKind::Time, full)));
        }
        Some(STRING_TAG) => return Ok(Some(Plain::new(ValueKind::Text, text))),
        _ => {}
    }
    Ok(Some(match scalar.resolve() {
        Resolved::Null => return Ok(None),
        Resolved::Bool(value) => bool_plain(value),
        Resolved::Int(value) => {
            let value = i64::try_from(value).map_err(|_| "a number beyond 64 bits")?;
            Plain::new(ValueKind::Int, value.to_string())
        }
        Resolved::Float(value) => Plain::new(ValueKind::Float, float_bytes(value)),
        Resolved::Text => match timestamp(text).filter(|_| scalar.style == Style::Plain) {
            Some(full) => Plain::new(ValueKind::Time, full),
            None => Plain::new(ValueKind::Text, text),
        },
    }))
}

/// Node that `sops` writes for a value.
pub(super) fn node_of(plain: &Plain) -> Option<Node> {
    let Ok(text) = std::str::from_utf8(&plain.bytes) else {
        return matches!(plain.kind, ValueKind::Text | ValueKind::Bytes)
            .then(|| binary(&plain.bytes));
    };
    Some(match plain.kind {
        ValueKind::Text | ValueKind::Bytes => string(text),
        ValueKind::Comment => Node::comment(text),
        ValueKind::Int => Node::plain(text.parse::<i64>().ok()?.to_string()),
        ValueKind::Float => Node::plain(float_text(parse_float(text)?)),
        ValueKind::Bool => Node::plain(parse_bool(text)?.to_string()),
        ValueKind::Time => {
            let mut node = Node::plain(timestamp(text)?);
            node.tag = Some(TIMESTAMP_TAG.to_owned());
            node
        }
    })
}

/// Value in the form that the MAC covers. `sops` parses the decrypted value and prints it again.
pub(super) fn canonical(plain: Plain) -> Option<Plain> {
    let text = std::str::from_utf8(&plain.bytes);
    Some(match plain.kind {
        ValueKind::Text | ValueKind::Bytes | ValueKind::Comment => plain,
        ValueKind::Int => Plain::new(ValueKind::Int, text.ok()?.parse::<i64>().ok()?.to_string()),
        ValueKind::Float => Plain::new(ValueKind::Float, float_bytes(parse_float(text.ok()?)?)),
        ValueKind::Bool => bool_plain(parse_bool(text.ok()?)?),
        ValueKind::Time => Plain::new(ValueKind::Time, timestamp(text.ok()?)?),
    })
}

/// Scalar of an unknown type in the form that go-yaml writes after reading it.
pub(crate) fn normal_scalar(node: &Node) -> Node {
    let plain = node.as_scalar().map(|scalar| plain_of(node, scalar));
    match plain {
        Some(Ok(Some(plain))) => node_of(&plain).unwrap_or_else(|| node.clone()),
        Some(Ok(None)) => Node::plain("null"),
        _ => node.clone(),
    }
}

fn binary(bytes: &[u8]) -> Node {
    let mut base64 = STANDARD.encode(bytes);
    if base64.len() > BINARY_LINE {
        let mut lines = String::new();
        for (index, c) in base64.chars().enumerate() {
            if index > 0 && index % BINARY_LINE == 0 {
                lines.push('\n');
            }
            lines.push(c);
        }
        lines.push('\n');
        base64.zeroize();
        base64 = lines;
    }
    let mut node = string(base64);
    node.tag = Some(BINARY_TAG.to_owned());
    node
}

fn bool_plain(value: bool) -> Plain {
    Plain::new(ValueKind::Bool, if value { "True" } else { "False" })
}

fn parse_bool(text: &str) -> Option<bool> {
    match text {
        "1" | "t" | "T" | "true" | "TRUE" | "True" => Some(true),
        "0" | "f" | "F" | "false" | "FALSE" | "False" => Some(false),
        _ => None,
    }
}

fn parse_float(text: &str) -> Option<f64> {
    text.parse().ok()
}

/// Number with all digits and without an exponent. The MAC covers this form.
fn float_bytes(value: f64) -> String {
    if value.is_nan() {
        "NaN".to_owned()
    } else if value.is_infinite() {
        if value > 0.0 { "+Inf" } else { "-Inf" }.to_owned()
    } else {
        value.to_string()
    }
}

/// Number in the form that go-yaml writes. It has an exponent if the exponent is below -4 or above 5.
fn float_text(value: f64) -> String {
    if value.is_nan() {
        return ".nan".to_owned();
    }
    if value.is_infinite() {
        return if value > 0.0 { ".inf" } else { "-.inf" }.to_owned();
    }
    let scientific = format!("{value:e}");
    let exponent: i32 = scientific
        .split_once('e')
        .and_then(|(_, exponent)| exponent.parse().ok())
        .unwrap_or_default();
    if (-4..6).contains(&exponent) {
        return value.to_string();
    }
    let (mantissa, _) = scientific.split_once('e').unwrap_or((&scientific, ""));
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{mantissa}e{sign}{:02}", exponent.abs())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plain(text: &str) -> (ValueKind, String) {
        let documents = talmox_yaml::read(text).unwrap();
        let node = &documents[0];
        let plain = plain_of(node, node.as_scalar().unwrap()).unwrap().unwrap();
        let text = String::from_utf8(plain.bytes.to_vec()).unwrap();
        (plain.kind, text)
    }

    #[test]
    fn scalars_are_decoded_as_in_go_yaml() {
        for (text, kind, bytes) in [
            ("off", ValueKind::Text, "off"),
            ("0644", ValueKind::Int, "420"),
            ("1_000", ValueKind::Int, "1000"),
            ("-7", ValueKind::Int, "-7"),
            ("1.50", ValueKind::Float, "1.5"),
            ("1e3", ValueKind::Float, "1000"),
            ("1e-7", ValueKind::Float, "0.0000001"),
            ("true", ValueKind::Bool, "True"),
            ("'true'", ValueKind::Text, "true"),
            ("2026-01-02", ValueKind::Time, "2026-01-02T00:00:00Z"),
            ("'2026-01-02'", ValueKind::Text, "2026-01-02"),
            ("!!str 5", ValueKind::Text, "5"),
            ("!!binary aGk=", ValueKind::Text, "hi"),
        ] {
            assert_eq!(plain(text), (kind, bytes.to_owned()), "{text}");
        }
    }

    #[test]
    fn floats_are_written_as_go_does() {
        for (value, text) in [
            (1.5, "1.5"),
            (1.0, "1"),
            (123_456.5, "123456.5"),
            (1_234_567.0, "1.234567e+06"),
            (1e21, "1e+21"),
            (1.5e-7, "1.5e-07"),
            (0.0001, "0.0001"),
        ] {
            assert_eq!(float_text(value), text);
        }
    }
}
