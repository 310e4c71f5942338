//! The types of the built-in kinds.

use std::collections::BTreeMap;
use std::sync::LazyLock;

/// What a field holds.
#[derive(Clone, Copy, Debug)]
pub(super) enum Content {
    Anything,
    One(&'static str),
    List(&'static str),
    Map(&'static str),
}

/// The fields of a type.
pub(super) type Fields = BTreeMap<&'static str, Content>;

static TABLE: LazyLock<BTreeMap<&'static str, Fields>> =
    LazyLock::new(|| read(include_str!("builtin.txt")));

pub(super) fn fields(name: &str) -> Option<&'static Fields> {
    TABLE.get(name)
}

fn read(text: &'static str) -> BTreeMap<&'static str, Fields> {
    let mut table: BTreeMap<&'static str, Fields> = BTreeMap::new();
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
    fn every_built_in_kind_and_every_type_of_a_field_is_there() {
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
