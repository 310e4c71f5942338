//! Parser of a mapping that may have only known keys. An unknown key is an error with its position.

use std::collections::BTreeMap;
use std::str::FromStr;

use talmox_yaml::{Map, Node, Resolved, Span, Value};

use super::ScenarioError;

/// Scenario file during parsing, used in error messages.
#[derive(Clone, Copy, Debug)]
pub(super) struct Source<'s> {
    pub(super) path: &'s str,
    pub(super) text: &'s str,
}

/// Mapping in a scenario that may have only known keys.
#[derive(Clone, Copy, Debug)]
pub(super) struct Section<'s> {
    pub(super) source: Source<'s>,
    map: &'s Map,
    span: Span,
    /// Noun for the mapping in messages, such as `a storage`.
    what: &'s str,
}

pub(super) type Read<T> = Result<T, ScenarioError>;

impl<'s> Source<'s> {
    pub(super) fn line(self, span: Span) -> usize {
        let before = self.text.get(..span.start).unwrap_or(self.text);
        before.bytes().filter(|byte| *byte == b'\n').count() + 1
    }

    pub(super) fn error(self, span: Span, message: impl Into<String>) -> ScenarioError {
        ScenarioError {
            path: self.path.to_owned(),
            line: self.line(span),
            message: message.into(),
            hint: None,
        }
    }

    /// Text of a scalar. An unquoted `true` becomes `1` and an unquoted `false` becomes `0`, as in Proxmox.
    pub(super) fn text(self, node: &Node, what: &str) -> Read<String> {
        match &node.value {
            Value::Scalar(scalar) => Ok(match scalar.resolve() {
                Resolved::Bool(flag) => u8::from(flag).to_string(),
                _ => scalar.text.clone(),
            }),
            _ => {
                Err(self.error(node.span, format!("{what} must be text, not {}", node.describe())))
            }
        }
    }

    pub(super) fn list(self, node: &'s Node, what: &str) -> Read<&'s [Node]> {
        match node.as_seq() {
            Some(seq) => Ok(&seq.items),
            None if node.is_null() => Ok(&[]),
            None => {
                Err(self
                    .error(node.span, format!("{what} must be a list, not {}", node.describe())))
            }
        }
    }

    /// Entries of a mapping with arbitrary keys.
    pub(super) fn entries(self, node: &'s Node, what: &str) -> Read<Vec<(String, &'s Node)>> {
        let Some(map) = node.as_map() else {
            if node.is_null() {
                return Ok(vec![]);
            }
            let message = format!("{what} must be a mapping, not {}", node.describe());
            return Err(self.error(node.span, message));
        };
        let mut entries: Vec<(String, &Node)> = vec![];
        for entry in &map.entries {
            let key = self.text(&entry.key, "a key")?;
            if entries.iter().any(|(other, _)| *other == key) {
                return Err(self.error(entry.key.span, format!("`{key}` is defined twice")));
            }
            entries.push((key, &entry.value));
        }
        Ok(entries)
    }

    /// Mapping of names to strings.
    pub(super) fn options(self, node: &'s Node, what: &str) -> Read<BTreeMap<String, String>> {
        let entries = self.entries(node, what)?;
        entries
            .into_iter()
            .map(|(key, value)| {
                let text = self.text(value, &format!("`{key}`"))?;
                Ok((key, text))
            })
            .collect()
    }
}

impl<'s> Section<'s> {
    pub(super) fn open(
        source: Source<'s>,
        node: &'s Node,
        what: &'s str,
        keys: &[&str],
    ) -> Read<Self> {
        for (key, _) in source.entries(node, what)? {
            if !keys.contains(&key.as_str()) {
                let span = key_span(node, &key);
                let message = format!("{what} has no `{key}`");
                return Err(source.error(span, message).one_of(&key, keys));
            }
        }
        let map = node.as_map().ok_or_else(|| {
            source.error(node.span, format!("{what} must be a mapping, but is empty"))
        })?;
        Ok(Self { source, map, span: node.span, what })
    }

    pub(super) fn get(&self, key: &str) -> Option<&'s Node> {
        self.map.get(key).filter(|node| !node.is_null())
    }

    pub(super) fn text(&self, key: &str) -> Read<Option<String>> {
        self.get(key).map(|node| self.source.text(node, &format!("`{key}`"))).transpose()
    }

    /// String value of a key that must be present.
    pub(super) fn name(&self, key: &str) -> Read<String> {
        self.text(key)?
            .filter(|name| !name.is_empty())
            .ok_or_else(|| self.source.error(self.span, format!("{} needs `{key}`", self.what)))
    }

    pub(super) fn flag(&self, key: &str) -> Read<bool> {
        match self.text(key)?.as_deref() {
            None | Some("0") => Ok(false),
            Some("1") => Ok(true),
            Some(other) => Err(self.error(key, format!("`{key}` is 0 or 1, not `{other}`"))),
        }
    }

    pub(super) fn number<T: FromStr>(&self, key: &str) -> Read<Option<T>> {
        self.text(key)?
            .map(|text| {
                text.parse()
                    .map_err(|_| self.error(key, format!("`{key}` is a number, not `{text}`")))
            })
            .transpose()
    }

    /// Size in bytes from the value of a key, which may have a unit, such as `32G`.
    pub(super) fn size(&self, key: &str) -> Read<Option<u64>> {
        self.text(key)?
            .map(|text| {
                bytes(&text).ok_or_else(|| {
                    self.error(key, format!("`{key}` is a size, not `{text}`"))
                        .hint("write bytes, or a number with KiB, MiB, GiB or TiB")
                })
            })
            .transpose()
    }

    pub(super) fn list(&self, key: &str) -> Read<&'s [Node]> {
        self.get(key).map_or(Ok(&[]), |node| self.source.list(node, &format!("`{key}`")))
    }

    /// Words from a list or from a comma-separated string.
    pub(super) fn words(&self, key: &str) -> Read<Vec<String>> {
        let Some(node) = self.get(key) else { return Ok(vec![]) };
        if node.as_seq().is_some() {
            let items = self.source.list(node, key)?;
            return items.iter().map(|item| self.source.text(item, "a word")).collect();
        }
        let text = self.source.text(node, &format!("`{key}`"))?;
        let words = text.split([',', ';', ' ']).filter(|word| !word.is_empty());
        Ok(words.map(str::to_owned).collect())
    }

    pub(super) fn options(&self, key: &str) -> Read<BTreeMap<String, String>> {
        self.get(key)
            .map_or(Ok(BTreeMap::new()), |node| self.source.options(node, &format!("`{key}`")))
    }

    pub(super) fn entries(&self, key: &str) -> Read<Vec<(String, &'s Node)>> {
        self.get(key).map_or(Ok(vec![]), |node| self.source.entries(node, &format!("`{key}`")))
    }

    /// Error about the value of a key.
    pub(super) fn error(&self, key: &str, message: impl Into<String>) -> ScenarioError {
        let span = self.map.get(key).map_or(self.span, |node| node.span);
        self.source.error(span, message)
    }
}

fn key_span(node: &Node, key: &str) -> Span {
    let entries = node.as_map().map(|map| map.entries.as_slice()).unwrap_or_default();
    entries
        .iter()
        .find(|entry| entry.key.as_str() == Some(key))
        .map_or(node.span, |entry| entry.key.span)
}

/// Parses a size with or without a unit: `32G`, `32GiB` or `34359738368`.
fn bytes(text: &str) -> Option<u64> {
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let shift = match unit.trim_start() {
        "" | "B" => 0,
        "K" | "KiB" => 10,
        "M" | "MiB" => 20,
        "G" | "GiB" => 30,
        "T" | "TiB" => 40,
        _ => return None,
    };
    number.parse::<u64>().ok()?.checked_mul(1 << shift)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_parsed_with_units() {
        assert_eq!(bytes("32GiB"), Some(32 << 30));
        assert_eq!(bytes("32G"), Some(32 << 30));
        assert_eq!(bytes("4 MiB"), Some(4 << 20));
        assert_eq!(bytes("512"), Some(512));
        for wrong in ["", "G", "1.5G", "-1", "1GB", "99999999999T"] {
            assert_eq!(bytes(wrong), None, "{wrong}");
        }
    }
}
