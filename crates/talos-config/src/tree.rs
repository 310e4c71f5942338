//! Functions that build trees in code.

use talmox_yaml::Node;
pub(crate) use talmox_yaml::build::{flag, list, map, texts};

pub(crate) fn map_of<'a>(entries: impl IntoIterator<Item = (&'a str, Node)>) -> Node {
    map(entries.into_iter().map(|(key, value)| (key, Some(value))))
}
