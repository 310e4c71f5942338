//! Table of the types of the built-in kinds and their fields.

use std::collections::BTreeMap;
use std::sync::LazyLock;

/// Type of the value of a field in a built-in Kubernetes type.
#[derive(Clone, Copy, Debug)]
pub(super) enum Content {
    Anything,
    One(&'static str),
    List(&'static str),
    Map(&'static str),
}

/// Names and types of the fields of a built-in Kubernetes type.
pub(super) type TypeFields = BTreeMap<&'static str, Content>;

static TABLE: LazyLock<BTreeMap<&'static str, TypeFields>> =
    LazyLock::new(|| read(include_str!("builtin.txt")));

pub(super) fn fields(name: &str) -> Option<&'static TypeFields> {
    TABLE.get(name)
}

fn read(text: &'static str) -> BTreeMap<&'static str, TypeFields> {
    let mut table: BTreeMap<&'static str, TypeFields> = BTreeMap::new();
    let mut current = "";
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        let mut words = line.split_whitespace();
        if !line.starts_with(' ') {
            current = words.next().unwrap_or_default();
        }
        table.entry(current).or_default().extend(words.map(content));
    }
    table
}

fn content(word: &'static str) -> (&'static str, Content) {
    let Some((name, kind)) = word.split_once(':') else { return (word, Content::Anything) };
    let content = match (kind.strip_suffix("[]"), kind.strip_suffix("{}")) {
        (Some(kind), _) => Content::List(kind),
        (_, Some(kind)) => Content::Map(kind),
        _ => Content::One(kind),
    };
    (name, content)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kind::Kinds;

    #[test]
    fn every_built_in_kind_and_field_type_is_in_the_table() {
        for kind in Kinds::default().iter() {
            let fields = fields(&kind.name);
            let fields = fields.unwrap_or_else(|| panic!("{} has no fields", kind.name));
            assert!(fields.contains_key("metadata"), "{}", kind.name);
        }
        for (name, fields) in TABLE.iter() {
            for (field, content) in fields {
                if let Content::One(kind) | Content::List(kind) | Content::Map(kind) = content {
                    assert!(TABLE.contains_key(kind), "{name}.{field} is of type {kind}");
                }
            }
        }
    }
}
