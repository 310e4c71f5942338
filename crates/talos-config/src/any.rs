//! Values without a schema, such as the configuration of an admission plugin.
//!
//! Talos decodes such a value to a generic Go value and writes that: numbers are decimal, keys are sorted, and dates
//! are complete. This module does the same. For all other values the schema defines the type.

use talmox_yaml::{
    BINARY_TAG, Entry, Map, Node, Resolved, Seq, Style, TIMESTAMP_TAG, Value, key_order, timestamp,
};

use crate::format::text;

/// Go type of a generic value. Only types that merging distinguishes are listed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum GoType {
    Null,
    Bool,
    Int,
    /// Number that is too large for a signed integer.
    Uint,
    Float,
    Text,
    Time,
    List,
    Map,
}

impl GoType {
    pub(crate) fn of(node: &Node) -> Self {
        match &node.value {
            Value::Map(_) => Self::Map,
            Value::Seq(_) => Self::List,
            Value::Scalar(_) if node.tag.as_deref() == Some(TIMESTAMP_TAG) => Self::Time,
            Value::Scalar(scalar) => match scalar.resolve() {
                Resolved::Null => Self::Null,
                Resolved::Bool(_) => Self::Bool,
                Resolved::Int(int) if int > i128::from(i64::MAX) => Self::Uint,
                Resolved::Int(_) => Self::Int,
                Resolved::Float(_) => Self::Float,
                Resolved::Text => Self::Text,
            },
        }
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Null => "<nil>",
            Self::Bool => "bool",
            Self::Int => "int",
            Self::Uint => "uint64",
            Self::Float => "float64",
            Self::Text => "string",
            Self::Time => "time.Time",
            Self::List => "[]interface {}",
            Self::Map => "map[string]interface {}",
        }
    }
}

/// Canonical form of a generic value.
pub(crate) fn canonical(node: &Node) -> Node {
    match &node.value {
        Value::Map(map) => canonical_map(map),
        Value::Seq(seq) => Node::from(Value::Seq(Seq {
            items: seq.items.iter().map(canonical).collect(),
            flow: false,
        })),
        Value::Scalar(_) if node.tag.as_deref() == Some(BINARY_TAG) => node.clone(),
        Value::Scalar(scalar) => match scalar.resolve() {
            Resolved::Null => null(),
            Resolved::Bool(value) => Node::plain(value.to_string()),
            Resolved::Int(value) => Node::plain(value.to_string()),
            Resolved::Float(value) => Node::plain(write_float(value)),
            Resolved::Text => match timestamp(&scalar.text) {
                Some(full) if scalar.style == Style::Plain => {
                    let mut node = Node::plain(full);
                    node.tag = Some(TIMESTAMP_TAG.to_owned());
                    node
                }
                _ => text(&scalar.text),
            },
        },
    }
}

fn canonical_map(map: &Map) -> Node {
    let all_text =
        map.entries.iter().all(|entry| GoType::of(&canonical(&entry.key)) == GoType::Text);
    let mut entries: Vec<Entry> = map
        .entries
        .iter()
        .map(|entry| Entry { key: canonical(&entry.key), value: canonical(&entry.value) })
        .collect();
    if all_text {
        sort_by_key(&mut entries);
    } else {
        // In Go's order of mixed keys, numbers come before texts.
        entries.sort_by(|a, b| {
            let number = |node: &Node| node.as_str().and_then(|text| text.parse::<f64>().ok());
            let (left, right) = (number(&a.key), number(&b.key));
            match (left, right) {
                (Some(left), Some(right)) => left.total_cmp(&right),
                _ => right.is_some().cmp(&left.is_some()),
            }
        });
    }
    Node::from(Value::Map(Map { entries, flow: false }))
}

/// Sorts entries in the order in which Go's encoder writes a map.
pub(crate) fn sort_by_key(entries: &mut [Entry]) {
    entries.sort_by(|a, b| {
        let (left, right) = (a.key.as_str(), b.key.as_str());
        key_order(left.unwrap_or_default(), right.unwrap_or_default())
    });
}

pub(crate) fn null() -> Node {
    Node::plain("null")
}

/// Shortest form of a number that is parsed to the same value. Numbers from a million on and below 0.0001 have an
/// exponent.
pub(crate) fn write_float(value: f64) -> String {
    if value.is_nan() {
        return ".nan".to_owned();
    }
    if value.is_infinite() {
        return if value > 0.0 { ".inf" } else { "-.inf" }.to_owned();
    }
    let shortest = format!("{value:e}");
    let (digits, exponent) = shortest.split_once('e').unwrap_or((&shortest, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    if (-4..6).contains(&exponent) {
        return format!("{value}");
    }
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{digits}e{sign}{:02}", exponent.abs())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn generic_values_are_rewritten() {
        let node = &talmox_yaml::read(
            "b: 0x10\na: [1.0, 1e6, 0.00001, -0, yes, 'yes', 2020-01-01, ~, True]\na1: x\n",
        )
        .unwrap()[0];
        assert_eq!(
            talmox_yaml::emit(&canonical(node), 4),
            "a:\n    - 1\n    - 1e+06\n    - 1e-05\n    - -0\n    - \"yes\"\n    - \"yes\"\n    \
             - 2020-01-01T00:00:00Z\n    - null\n    - true\na1: x\nb: 16\n"
        );
    }
}
