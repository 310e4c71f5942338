//! Construction of trees.

use crate::scalar::{Scalar, Style};
use crate::tree::{Entry, Map, Node, Seq, Value};

/// String scalar. It stays a string even if the text looks like another type.
pub fn text(text: impl Into<String>) -> Node {
    Node::from(Value::Scalar(Scalar { text: text.into(), style: Style::DoubleQuoted }))
}

/// Builds a boolean scalar.
pub fn flag(value: bool) -> Node {
    Node::plain(value.to_string())
}

pub fn number(value: impl Into<u64>) -> Node {
    Node::plain(value.into().to_string())
}

/// Mapping with the entries that have a value.
pub fn map<'a>(entries: impl IntoIterator<Item = (&'a str, Option<Node>)>) -> Node {
    let entries = entries.into_iter().filter_map(|(key, value)| {
        let value = value?;
        Some(Entry { key: text(key), value })
    });
    Node::from(Value::Map(Map { entries: entries.collect(), flow: false }))
}

pub fn list(items: impl IntoIterator<Item = Node>) -> Node {
    Node::from(Value::Seq(Seq { items: items.into_iter().collect(), flow: false }))
}

pub fn texts<T: Into<String>>(items: impl IntoIterator<Item = T>) -> Node {
    list(items.into_iter().map(text))
}

/// Returns the list or mapping unless it is empty.
pub fn unless_empty(node: Node) -> Option<Node> {
    let is_empty = match &node.value {
        Value::Seq(seq) => seq.items.is_empty(),
        Value::Map(map) => map.entries.is_empty(),
        Value::Scalar(_) => false,
    };
    (!is_empty).then_some(node)
}
