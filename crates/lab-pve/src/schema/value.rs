//! Parameters of a call, before and after verification.

use std::collections::BTreeMap;

use serde_json::{Number, Value};

use super::perl::split_list;

/// Unverified parameter. Queries and forms contain only texts, and a key that occurs several times becomes a list. JSON bodies
/// can contain all types.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Raw {
    Null,
    Text(String),
    Flag(bool),
    Number(Number),
    List(Vec<Self>),
    Object,
}

impl From<&str> for Raw {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl From<Value> for Raw {
    fn from(value: Value) -> Self {
        match value {
            Value::Null => Self::Null,
            Value::Bool(flag) => Self::Flag(flag),
            Value::Number(number) => Self::Number(number),
            Value::String(text) => Self::Text(text),
            Value::Array(items) => Self::List(items.into_iter().map(Self::from).collect()),
            Value::Object(_) => Self::Object,
        }
    }
}

impl Raw {
    /// Value as text. For a value that Proxmox does not accept as text, the error is the Perl name of its type.
    pub(crate) fn scalar(&self) -> Result<String, &'static str> {
        match self {
            Self::Text(text) => Ok(text.clone()),
            Self::Number(number) => Ok(print_number(number)),
            Self::Null => Ok(String::new()),
            Self::Flag(_) => Err("JSON::PP::Boolean"),
            Self::List(_) => Err("ARRAY"),
            Self::Object => Err("HASH"),
        }
    }
}

/// Number as text. Whole numbers are printed without a fraction.
fn print_number(number: &Number) -> String {
    match number.as_f64() {
        Some(float) if number.is_f64() && float.fract() == 0.0 && float.abs() < 1e15 => {
            format!("{float:.0}")
        }
        _ => number.to_string(),
    }
}

/// Verified value of a parameter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Verified {
    Text(String),
    List(Vec<String>),
}

/// Verified parameters of a call, without default values.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Parameters {
    values: BTreeMap<String, Verified>,
}

impl Parameters {
    pub(super) fn insert(&mut self, name: String, value: Verified) {
        self.values.insert(name, value);
    }

    pub(crate) fn has(&self, name: &str) -> bool {
        self.values.contains_key(name)
    }

    /// Text of the value as the client sent it. Numbers and booleans are texts as well; a list is `None`.
    pub(crate) fn text(&self, name: &str) -> Option<&str> {
        match self.values.get(name)? {
            Verified::Text(text) => Some(text),
            Verified::List(_) => None,
        }
    }

    pub(crate) fn flag(&self, name: &str) -> Option<bool> {
        self.text(name).map(|text| text == "1")
    }

    pub(crate) fn number(&self, name: &str) -> Option<i64> {
        let text = self.text(name)?.trim_end_matches('\n');
        text.parse().ok()
    }

    /// Items of an array, or of a list that is written as one text.
    pub(crate) fn list(&self, name: &str) -> Vec<&str> {
        match self.values.get(name) {
            Some(Verified::List(items)) => items.iter().map(String::as_str).collect(),
            Some(Verified::Text(text)) => split_list(text),
            None => Vec::new(),
        }
    }

    /// All parameters that are texts, sorted by name.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.values.iter().filter_map(|(name, value)| match value {
            Verified::Text(text) => Some((name.as_str(), text.as_str())),
            Verified::List(_) => None,
        })
    }
}
