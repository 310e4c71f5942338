//! Making YAML trees by hand.

use talmox_yaml::{Entry, Map, Node, Scalar, Seq, Style, Value};

/// Text, whatever it looks like.
pub(crate) fn string(text: impl Into<String>) -> Node {
    Node::from(Value::Scalar(Scalar {
        text: text.into(),
        style: Style::DoubleQuoted,
    }))
}

pub(crate) fn list(items: impl IntoIterator<Item = Node>) -> Node {
    Node::from(Value::Seq(Seq {
        items: items.into_iter().collect(),
        flow: false,
    }))
}

pub(crate) fn strings<T: ToString>(items: impl IntoIterator<Item = T>) -> Node {
    list(items.into_iter().map(|item| string(item.to_string())))
}

pub(crate) fn map<'a>(entries: impl IntoIterator<Item = (&'a str, Node)>) -> Node {
    let entries = entries.into_iter().map(|(key, value)| Entry {
        key: string(key),
        value,
    });
    Node::from(Value::Map(Map {
        entries: entries.collect(),
        flow: false,
    }))
}
