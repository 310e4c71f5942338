//! Access to the schema files.

use std::fs;
use std::path::Path;

use serde_json::{Map, Value};

use super::super::Endpoint;
use crate::Release;

/// API schema of one release.
pub(super) struct ApiSchema {
    pub(super) release: Release,
    api: Value,
    formats: Value,
}

/// Schema of one API method.
pub(super) struct MethodSchema<'a>(pub(super) &'a Value);

/// Format of a property, named or inline.
pub(super) enum FormatSchema<'a> {
    /// Format that Perl code checks. The schema contains only its name.
    Named(&'a str),
    /// Format of each item of a list.
    Each(&'a str),
    /// Format of a value that may also be empty.
    UnlessEmpty(&'a str),
    Properties(Option<&'a str>, &'a Map<String, Value>),
}

impl ApiSchema {
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

    pub(super) fn method(&self, endpoint: &Endpoint) -> Option<MethodSchema<'_>> {
        let method = &self.api[endpoint.path][endpoint.method.name()];
        (!method.is_null()).then_some(MethodSchema(method))
    }

    pub(super) fn format<'a>(&'a self, property: &'a Value) -> Option<FormatSchema<'a>> {
        let name = match property.get("format")? {
            Value::Object(keys) => return Some(FormatSchema::Properties(None, keys)),
            format => format.as_str().unwrap(),
        };
        if let Some(item) = name.strip_suffix("-list") {
            return Some(FormatSchema::Each(item));
        }
        if let Some(word) = name.strip_suffix("-opt") {
            return Some(FormatSchema::UnlessEmpty(word));
        }
        Some(match &self.formats[name] {
            Value::Object(keys) => FormatSchema::Properties(Some(name), keys),
            code => {
                assert_eq!(code, "code", "{name}");
                FormatSchema::Named(name)
            }
        })
    }
}

impl MethodSchema<'_> {
    pub(super) fn properties(&self) -> &Map<String, Value> {
        static NONE: std::sync::LazyLock<Map<String, Value>> = std::sync::LazyLock::new(Map::new);
        self.0["parameters"]["properties"].as_object().unwrap_or(&NONE)
    }

    pub(super) fn is_open(&self) -> bool {
        is_true(&self.0["parameters"]["additionalProperties"])
    }
}

/// Boolean in the schema, which may be written as a number or a string.
pub(super) fn is_true(value: &Value) -> bool {
    match value {
        Value::Null => false,
        Value::Number(number) => number.as_i64() != Some(0),
        Value::String(text) => text != "0",
        other => panic!("not a boolean: {other}"),
    }
}

/// Numeric limit in the schema, which may be written as a string.
pub(super) fn limit(property: &Value, name: &str) -> Option<i64> {
    match property.get(name)? {
        Value::Number(number) => number.as_i64(),
        Value::String(text) => Some(text.parse().unwrap()),
        other => panic!("not a number: {other}"),
    }
}

pub(super) fn enumeration(property: &Value) -> Option<Vec<&str>> {
    let values = property.get("enum")?.as_array()?;
    Some(values.iter().map(|value| value.as_str().unwrap()).collect())
}

/// Pattern of a property, converted from Perl syntax to the syntax of the `regex` crate.
pub(super) fn pattern(property: &Value) -> Option<String> {
    let pattern = property.get("pattern")?.as_str().unwrap();
    let plain = pattern.replace("(?^:", "(?:").replace("(?^u:", "(?:").replace("(?^i:", "(?i:");
    Some(plain.replace("{,", "{0,"))
}
