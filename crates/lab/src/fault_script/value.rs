//! Parser of the values in a fault.

use std::time::Duration;

use serde_json::{Map, Value as Json};

use crate::scenario::nearest;

/// Error about an entry of `faults`, with a hint.
#[derive(Debug)]
pub(super) struct EntryError {
    pub(super) message: String,
    pub(super) hint: Option<String>,
}

impl EntryError {
    pub(super) fn new(message: impl Into<String>, hint: impl Into<String>) -> Self {
        Self { message: message.into(), hint: Some(hint.into()) }
    }

    /// Error about an unknown word, with a hint that names the most similar known word or all known words.
    pub(super) fn unknown(message: impl Into<String>, word: &str, known: &[&str]) -> Self {
        let hint = match nearest(word, known) {
            Some(near) => format!("did you mean `{near}`?"),
            None => format!("known: {}", known.join(", ")),
        };
        Self::new(message, hint)
    }

    /// Error about a value of the wrong form.
    pub(super) fn form(key: &str, form: &str) -> Self {
        Self { message: format!("`{key}` must be {form}"), hint: None }
    }
}

impl From<&str> for EntryError {
    fn from(message: &str) -> Self {
        Self { message: message.to_owned(), hint: None }
    }
}

impl From<String> for EntryError {
    fn from(message: String) -> Self {
        Self { message, hint: None }
    }
}

/// Fields of a mapping. An unknown field is an error.
pub(super) fn fields<'v>(
    key: &str,
    value: &'v Json,
    known: &[&str],
    form: &str,
) -> Result<&'v Map<String, Json>, EntryError> {
    let fields = value.as_object().ok_or_else(|| EntryError::form(key, form))?;
    match fields.keys().find(|field| !known.contains(&field.as_str())) {
        Some(unknown) => {
            Err(EntryError::unknown(format!("`{key}` has no `{unknown}`"), unknown, known))
        }
        None => Ok(fields),
    }
}

pub(super) fn text(entry: &Map<String, Json>, key: &str) -> Result<Option<String>, EntryError> {
    match entry.get(key) {
        None | Some(Json::Null) => Ok(None),
        Some(Json::String(text)) => Ok(Some(text.clone())),
        Some(other) => Err(format!("`{key}` must be text, not {other}").into()),
    }
}

/// Name of a node. YAML may parse the name as a number, such as a vmid.
pub(super) fn name(entry: &Map<String, Json>, key: &str) -> Result<Option<String>, EntryError> {
    match entry.get(key) {
        None | Some(Json::Null) => Ok(None),
        Some(value) => node_name(value).map(Some).ok_or_else(|| {
            format!("`{key}` must be the name of a VM, its vmid or an address, not {value}").into()
        }),
    }
}

pub(super) fn node_name(value: &Json) -> Option<String> {
    match value {
        Json::String(text) if !text.is_empty() => Some(text.clone()),
        Json::Number(number) => number.as_u64().map(|number| number.to_string()),
        _ => None,
    }
}

pub(super) fn number<N: TryFrom<u64>>(
    entry: &Map<String, Json>,
    key: &str,
) -> Result<Option<N>, EntryError> {
    let Some(value) = entry.get(key).filter(|value| !value.is_null()) else { return Ok(None) };
    let number = value.as_u64().and_then(|number| N::try_from(number).ok());
    number.map(Some).ok_or_else(|| format!("`{key}` is a number, not {value}").into())
}

/// Duration of a fault, from the key `for`.
pub(super) fn lasts(key: &str, fields: &Map<String, Json>) -> Result<Option<Duration>, EntryError> {
    let Some(time) = fields.get("for") else { return Ok(None) };
    let wrong = || EntryError::form(key, "a mapping with a time in `for`: 60s");
    duration(time).map(Some).ok_or_else(wrong)
}

/// Duration such as `5s`, `300ms` or `2m`; a bare number is seconds.
pub(super) fn duration(value: &Json) -> Option<Duration> {
    Duration::try_from_secs_f64(seconds(value)?).ok()
}

/// Duration in seconds, which may be negative.
pub(super) fn seconds(value: &Json) -> Option<f64> {
    match value {
        Json::Number(number) => number.as_f64(),
        Json::String(text) => {
            let unit = text.find(|letter: char| letter.is_ascii_alphabetic())?;
            let (number, unit) = text.split_at(unit);
            let number: f64 = number.trim().parse().ok()?;
            match unit {
                "ms" => Some(number / 1000.0),
                "s" => Some(number),
                "m" | "min" => Some(number * 60.0),
                "h" => Some(number * 3600.0),
                _ => None,
            }
        }
        _ => None,
    }
}
