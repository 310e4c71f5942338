//! The schema files.

use std::fs;
use std::path::Path;

use serde_json::{Map, Value};

use super::super::Endpoint;
use crate::Release;

/// The schema of one release.
pub(super) struct Facts {
    pub(super) release: Release,
    api: Value,
    formats: Value,
}

/// One method of the API.
pub(super) struct MethodFacts<'a>(pub(super) &'a Value);

/// What a format is, by name or in place.
pub(super) enum FormatFacts<'a> {
    /// Checked by code that the schema does not show.
    Code(&'a str),
    /// Of each item of a list.
    Each(&'a str),
    /// Of what is not empty.
    UnlessEmpty(&'a str),
    Properties(Option<&'a str>, &'a Map<String, Value>),
}

impl Facts {
    pub(super) fn load(folder: &Path, release: Release) -> Self {
        let number = match release {
            Release::V8 => 8,
            Release::V9 => 9,
        };
        let read = |name: String| -> Value {
            let path = folder.join(name);
            let text =
                fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path:?}: {error}"));
            serde_json::from_str(&text).unwrap()
        };
        Self {
            release,
            api: read(format!("pve-{number}.json")),
            formats: read(format!("formats-{number}.json")),
        }
    }

    pub(super) fn method(&self, endpoint: &Endpoint) -> Option<MethodFacts<'_>> {
        let method = &self.api[endpoint.path][endpoint.method.name()];
        (!method.is_null()).then_some(MethodFacts(method))
    }

    pub(super) fn format<'a>(&'a self, property: &'a Value) -> Option<FormatFacts<'a>> {
        let name = match property.get("format")? {
            Value::Object(keys) => return Some(FormatFacts::Properties(None, keys)),
            format => format.as_str().unwrap(),
        };
        if let Some(item) = name.strip_suffix("-list") {
            return Some(FormatFacts::Each(item));
        }
        if let Some(word) = name.strip_suffix("-opt") {
            return Some(FormatFacts::UnlessEmpty(word));
        }
        Some(match &self.formats[name] {
            Value::Object(keys) => FormatFacts::Properties(Some(name), keys),
            code => {
                assert_eq!(code, "code", "{name}");
                FormatFacts::Code(name)
            }
        })
    }
}

impl MethodFacts<'_> {
    pub(super) fn properties(&self) -> &Map<String, Value> {
        static NONE: std::sync::LazyLock<Map<String, Value>> = std::sync::LazyLock::new(Map::new);
        self.0["parameters"]["properties"].as_object().unwrap_or(&NONE)
    }

    pub(super) fn is_open(&self) -> bool {
        is_true(&self.0["parameters"]["additionalProperties"])
    }
}

/// Numbers and texts are both used for yes and no.
pub(super) fn is_true(value: &Value) -> bool {
    match value {
        Value::Null => false,
        Value::Number(number) => number.as_i64() != Some(0),
        Value::String(text) => text != "0",
        other => panic!("neither yes nor no: {other}"),
    }
}

/// Limits are numbers, sometimes in quotes.
pub(super) fn limit(property: &Value, name: &str) -> Option<i64> {
    match property.get(name)? {
        Value::Number(number) => number.as_i64(),
        Value::String(text) => Some(text.parse().unwrap()),
        other => panic!("no limit: {other}"),
    }
}

pub(super) fn enumeration(property: &Value) -> Option<Vec<&str>> {
    let values = property.get("enum")?.as_array()?;
    Some(values.iter().map(|value| value.as_str().unwrap()).collect())
}

/// A pattern in a spelling that more than Perl understands.
pub(super) fn pattern(property: &Value) -> Option<String> {
    let pattern = property.get("pattern")?.as_str().unwrap();
    let plain = pattern.replace("(?^:", "(?:").replace("(?^u:", "(?:").replace("(?^i:", "(?i:");
    Some(plain.replace("{,", "{0,"))
}
