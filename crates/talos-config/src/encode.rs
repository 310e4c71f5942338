//! Conversion of a canonical tree to the tree that is written. Empty values are omitted, and missing required values
//! are added.

use talmox_yaml::{Entry, Map, Node, Seq, Value};

use crate::any;
use crate::format::{self, text};
use crate::schema::{Field, Format, Release, Struct, Type};

pub(crate) fn encode_record(node: &Node, record: &'static Struct, release: Release) -> Node {
    let map = node.as_map();
    let entries = record
        .fields(release)
        .filter_map(|field| {
            let value = map.and_then(|map| map.get(field.key));
            let value = match value {
                _ if field.omit_empty && is_empty(value, &field.ty, release) => return None,
                Some(value) => encode(value, &field.ty, release),
                None => zero(&field.ty, release),
            };
            Some(Entry { key: text(field.key), value })
        })
        .chain(map.into_iter().flat_map(|map| record.others(map, release)).cloned())
        .collect();
    Node::from(Value::Map(Map { entries, flow: false }))
}

fn encode(node: &Node, ty: &'static Type, release: Release) -> Node {
    if node.is_null() {
        return any::null();
    }
    match ty {
        Type::Pointer(inner) => encode(node, inner, release),
        Type::Struct(record) => encode_record(node, record, release),
        Type::List(inner, _) => Node::from(Value::Seq(Seq {
            items: node
                .as_seq()
                .map(|seq| {
                    let items = seq.items.iter();
                    items.map(|item| encode(item, inner, release)).collect()
                })
                .unwrap_or_default(),
            flow: false,
        })),
        Type::Map(inner) => Node::from(Value::Map(Map {
            entries: node
                .as_map()
                .map(|map| {
                    let entries = map.entries.iter();
                    entries
                        .map(|entry| Entry {
                            key: entry.key.clone(),
                            value: encode(&entry.value, inner, release),
                        })
                        .collect()
                })
                .unwrap_or_default(),
            flow: false,
        })),
        Type::Scalar(_) | Type::Any | Type::Args => node.clone(),
    }
}

/// Output form of Go's zero value of a type.
fn zero(ty: &'static Type, release: Release) -> Node {
    match ty {
        Type::Scalar(format) => format::zero(*format),
        Type::Pointer(_) => any::null(),
        Type::List(..) => Node::from(Value::Seq(Seq::default())),
        Type::Map(_) | Type::Any | Type::Args => Node::from(Value::Map(Map::default())),
        Type::Struct(record) => {
            encode_record(&Node::from(Value::Map(Map::default())), record, release)
        }
    }
}

/// Whether Go's encoder treats the value as empty. A pointer that is set is never empty.
fn is_empty(value: Option<&Node>, ty: &'static Type, release: Release) -> bool {
    let Some(value) = value else {
        return true;
    };
    match ty {
        Type::Pointer(_) => value.is_null(),
        Type::Scalar(Format::Mac | Format::Base64 | Format::Secret) => {
            value.as_str().is_none_or(str::is_empty)
        }
        Type::Scalar(format) => format::is_zero(*format, value),
        Type::List(..) => value.as_seq().is_none_or(|seq| seq.items.is_empty()),
        Type::Map(_) | Type::Any | Type::Args => {
            value.as_map().is_none_or(|map| map.entries.is_empty())
        }
        Type::Struct(record) => record.fields(release).all(|field| {
            let counts = record.counted.is_none_or(|keys| keys.contains(&field.key));
            !counts || is_empty_field(value, field, release)
        }),
    }
}

fn is_empty_field(node: &Node, field: &'static Field, release: Release) -> bool {
    let value = node.as_map().and_then(|map| map.get(field.key));
    is_empty(value, &field.ty, release)
}
