//! Small helpers to build trees by hand.

use talmox_yaml::{Entry, Map, Node, Seq, Value};

use crate::format::text;

/// A mapping of the keys that have a value.
pub(crate) fn map<const N: usize>(entries: [(&str, Option<Node>); N]) -> Node {
    map_of(entries.into_iter().filter_map(|(key, value)| Some((key, value?))))
}

pub(crate) fn map_of<'a>(entries: impl IntoIterator<Item = (&'a str, Node)>) -> Node {
    let entries = entries.into_iter().map(|(key, value)| Entry { key: text(key), value }).collect();
    Node::from(Value::Map(Map { entries, flow: false }))
}

pub(crate) fn list(items: impl IntoIterator<Item = Node>) -> Node {
    Node::from(Value::Seq(Seq { items: items.into_iter().collect(), flow: false }))
}

pub(crate) fn texts<'a>(items: impl IntoIterator<Item = &'a String>) -> Node {
    list(items.into_iter().map(text))
}

pub(crate) fn flag(value: bool) -> Node {
    Node::plain(value.to_string())
}
