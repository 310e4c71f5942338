//! Types of the YAML tree.

use crate::scalar::{Scalar, Style};

/// Byte range in the source text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Span {
    pub start: usize,
    pub end: usize,
}

impl Span {
    pub fn new(start: usize, end: usize) -> Self {
        Self { start, end }
    }
}

/// YAML node with its position.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Node {
    pub value: Value,
    pub span: Span,
    /// Explicit tag such as `!!str`, in the form `tag:yaml.org,2002:str`.
    pub tag: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value {
    Scalar(Scalar),
    Seq(Seq),
    Map(Map),
}

impl Default for Value {
    fn default() -> Self {
        Self::Scalar(Scalar::default())
    }
}

/// YAML list.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Seq {
    pub items: Vec<Node>,
    /// Whether the list was written as `[a, b]`.
    pub flow: bool,
}

/// YAML mapping, in the order of the source. Duplicate keys are kept, so that the caller can report them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Map {
    pub entries: Vec<Entry>,
    /// Whether the mapping was written as `{a: b}`.
    pub flow: bool,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Entry {
    pub key: Node,
    pub value: Node,
}

impl Map {
    /// Value of the first entry with this key.
    pub fn get(&self, key: &str) -> Option<&Node> {
        let is_it =
            |entry: &&Entry| entry.key.as_str() == Some(key) && entry.as_comment().is_none();
        self.entries.iter().find(is_it).map(|entry| &entry.value)
    }
}

impl Node {
    /// Plain scalar without a position in a source text.
    pub fn plain(text: impl Into<String>) -> Self {
        Self::from(Value::Scalar(Scalar { text: text.into(), style: Style::Plain }))
    }

    pub fn as_scalar(&self) -> Option<&Scalar> {
        match &self.value {
            Value::Scalar(scalar) => Some(scalar),
            _ => None,
        }
    }

    /// Text of a scalar of any style.
    pub fn as_str(&self) -> Option<&str> {
        self.as_scalar().map(|scalar| scalar.text.as_str())
    }

    pub fn as_map(&self) -> Option<&Map> {
        match &self.value {
            Value::Map(map) => Some(map),
            _ => None,
        }
    }

    pub fn as_seq(&self) -> Option<&Seq> {
        match &self.value {
            Value::Seq(seq) => Some(seq),
            _ => None,
        }
    }

    /// Whether the value is missing, `null` or `~`.
    pub fn is_null(&self) -> bool {
        self.as_scalar().is_some_and(Scalar::is_null)
    }

    /// Type of the node for messages: "a mapping", "a list", "text" and so on.
    pub fn describe(&self) -> &'static str {
        match &self.value {
            Value::Map(_) => "a mapping",
            Value::Seq(_) => "a list",
            Value::Scalar(scalar) => scalar.resolve().describe(),
        }
    }
}

impl From<Value> for Node {
    fn from(value: Value) -> Self {
        Self { value, span: Span::default(), tag: None }
    }
}
