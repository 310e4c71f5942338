//! Functions that build parts of configs. Empty values are omitted.

use std::collections::BTreeMap;

use talmox_yaml::Node;

use super::KeyPair;
use crate::format::text;
use crate::tree::{map, map_of, texts};

pub(super) fn non_empty(value: &str) -> Option<Node> {
    (!value.is_empty()).then(|| text(value))
}

pub(super) fn some_texts(values: &[String]) -> Option<Node> {
    (!values.is_empty()).then(|| texts(values))
}

pub(super) fn text_map(values: &BTreeMap<String, String>) -> Option<Node> {
    let entries = values.iter().map(|(key, value)| (key.as_str(), text(value)));
    (!values.is_empty()).then(|| map_of(entries))
}

pub(super) fn key_pair(pair: &KeyPair) -> Node {
    map([("crt", Some(text(&pair.crt))), ("key", Some(text(&pair.key)))])
}

/// Certificate of a CA without its key, for workers.
pub(super) fn certificate_only(pair: &KeyPair) -> Node {
    map([("crt", Some(text(&pair.crt))), ("key", Some(text("")))])
}
