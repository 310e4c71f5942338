//! Conversion of scalars with explicit tags, such as `!!int '12'`. go-yaml does this conversion before it uses the
//! target type.
//!
//! Afterwards the style of a scalar determines its type. No tags remain, except on bytes that are not text.

use talmox_yaml::{
    BINARY_TAG, Node, Resolved, STRING_TAG, Scalar, Style, TIMESTAMP_TAG, Value, timestamp,
};

use crate::format::decode_base64;

const PREFIX: &str = "tag:yaml.org,2002:";

/// Converts every tagged scalar below the node to the style with the same meaning.
pub(crate) fn apply(node: &mut Node) -> Result<(), String> {
    match &mut node.value {
        Value::Seq(seq) => seq.items.iter_mut().try_for_each(apply),
        Value::Map(map) => map.entries.iter_mut().try_for_each(|entry| {
            apply(&mut entry.key)?;
            apply(&mut entry.value)
        }),
        Value::Scalar(scalar) => {
            let Some(tag) = node.tag.take().filter(|tag| tag != "!") else {
                return Ok(());
            };
            node.tag = settle(scalar, &tag)?;
            Ok(())
        }
    }
}

/// Applies a tag to a scalar. Returns the tag that the scalar keeps.
fn settle(scalar: &mut Scalar, tag: &str) -> Result<Option<String>, String> {
    if tag == BINARY_TAG {
        let invalid = |_| "!!binary value contains invalid base64 data".to_owned();
        let bytes = decode_base64(&scalar.text).map_err(invalid)?;
        scalar.style = Style::DoubleQuoted;
        return Ok(match String::from_utf8(bytes) {
            Ok(text) => {
                scalar.text = text;
                None
            }
            Err(_) => Some(BINARY_TAG.to_owned()),
        });
    }
    let plain = Scalar { text: scalar.text.clone(), style: Style::Plain };
    let meant = match plain.resolve() {
        Resolved::Null => "null",
        Resolved::Bool(_) => "bool",
        Resolved::Int(_) => "int",
        Resolved::Float(_) => "float",
        Resolved::Text if tag == TIMESTAMP_TAG && timestamp(&plain.text).is_some() => "timestamp",
        Resolved::Text => "str",
    };
    match (tag.strip_prefix(PREFIX), meant) {
        (Some(wanted @ ("null" | "bool" | "int" | "float" | "timestamp")), meant) => {
            if wanted != meant && (wanted, meant) != ("float", "int") {
                return Err(format!(
                    "cannot construct !!{meant} `{}` as a !!{wanted}",
                    scalar.text
                ));
            }
            scalar.style = Style::Plain;
        }
        // Every scalar is a valid text. A scalar with an unknown tag is a text.
        _ if scalar.style == Style::Plain || tag == STRING_TAG => {
            scalar.style = Style::DoubleQuoted;
        }
        _ => {}
    }
    Ok(None)
}
