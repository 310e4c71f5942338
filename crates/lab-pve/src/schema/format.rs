//! Formats of property strings such as `virtio=BC:24:11:00:00:01,bridge=vmbr0,tag=40`.

use std::collections::BTreeMap;
use std::fmt;

use super::check::{Errors, UNDEFINED, check_presence, check_text};
use super::perl::{boolean, is_true};
use super::property::{Property, Schema, TableEntry, ValueCheck, ValueKind};
use super::size::{format_size, parse_size};
use crate::Release;

/// Alternative name for a key of a property string.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Alias {
    pub(crate) name: &'static str,
    /// Key that gets the value after the alias.
    pub(crate) of: &'static str,
    /// Key that gets the name of the alias: `virtio=MAC` means `model=virtio,macaddr=MAC`.
    pub(crate) key: Option<&'static str>,
}

/// Check of all keys of a property string together.
pub(crate) type FormatCheck = fn(&Fields, Release) -> Result<(), String>;

/// Keys and aliases of a property string.
#[derive(Clone, Debug)]
pub(crate) struct Format {
    /// Name of the format in the API schema; `None` if the schema defines the format without a name.
    #[cfg_attr(not(test), expect(dead_code, reason = "compared with the API's own schema"))]
    pub(crate) name: Option<&'static str>,
    pub(crate) schema: Schema,
    pub(crate) aliases: Vec<Alias>,
    check: Option<FormatCheck>,
}

impl Format {
    pub(crate) fn new(release: Release, entries: impl IntoIterator<Item = TableEntry>) -> Self {
        let schema = Schema::new(release, entries);
        Self { name: None, schema, aliases: Vec::new(), check: None }
    }

    pub(crate) fn named(self, name: &'static str) -> Self {
        Self { name: Some(name), ..self }
    }

    pub(crate) fn alias(mut self, name: &'static str, of: &'static str) -> Self {
        self.aliases.push(Alias { name, of, key: None });
        self
    }

    pub(crate) fn key_alias(
        mut self,
        name: &'static str,
        of: &'static str,
        key: &'static str,
    ) -> Self {
        self.aliases.push(Alias { name, of, key: Some(key) });
        self
    }

    pub(crate) fn with_check(self, check: FormatCheck) -> Self {
        Self { check: Some(check), ..self }
    }

    fn default_key(&self) -> Option<(&'static str, &Property)> {
        let mut keys = self.schema.plain.iter();
        keys.find(|(_, property)| property.default_key).map(|(name, property)| (*name, property))
    }

    /// Parses a property string. Booleans become `1` and `0`.
    pub(crate) fn parse(&self, text: &str) -> Result<Fields, Malformed> {
        self.parse_at("", text)
    }

    /// Parses a property string like [`Format::parse`]. Errors are prefixed with the option name `path`.
    pub(crate) fn parse_at(&self, path: &str, text: &str) -> Result<Fields, Malformed> {
        let fields = self.split(text).map_err(Malformed::Text)?;
        let prefix = if path.is_empty() { String::new() } else { format!("{path}.") };
        let mut errors = Errors::default();
        for (key, value) in &fields.0 {
            let name = format!("{prefix}{key}");
            let checked = match self.schema.get(key) {
                None => Err(UNDEFINED.to_owned()),
                Some(property) => check_text(self.schema.release, &name, property, value),
            };
            if let Err(error) = checked {
                errors.add(&name, error);
            }
        }
        let keys = fields.0.keys().map(String::as_str);
        check_presence(&self.schema, &prefix, keys, |key| fields.0.contains_key(key), &mut errors);
        if !errors.0.is_empty() {
            return Err(Malformed::Keys(errors.0));
        }
        if let Some(check) = self.check {
            check(&fields, self.schema.release).map_err(Malformed::Text)?;
        }
        Ok(fields)
    }

    /// Splits a property string into keys and unverified values.
    fn split(&self, text: &str) -> Result<Fields, String> {
        let mut fields = BTreeMap::new();
        let mut bare_value_seen = false;
        for part in text.split(',') {
            if part.chars().all(char::is_whitespace) {
                continue;
            }
            match part.split_once('=') {
                None => {
                    self.add_bare_value(&mut fields, part, bare_value_seen)?;
                    bare_value_seen = true;
                }
                Some((key, value)) => {
                    let value = value.strip_suffix('\n').unwrap_or(value);
                    if key.is_empty() || value.is_empty() || value.contains('\n') {
                        return Err("missing key in comma-separated list property".to_owned());
                    }
                    self.add_value(&mut fields, key, value)?;
                }
            }
        }
        Ok(Fields(fields))
    }

    fn add_value(
        &self,
        fields: &mut BTreeMap<String, String>,
        key: &str,
        value: &str,
    ) -> Result<(), String> {
        if fields.contains_key(key) {
            return Err(format!("duplicate key in comma-separated list property: {key}"));
        }
        let mut key = key;
        if let Some(alias) = self.aliases.iter().find(|alias| alias.name == key) {
            if let Some(taker) = alias.key {
                if fields.contains_key(taker) {
                    return Err(format!("key alias '{taker}' is already defined"));
                }
                fields.insert(taker.to_owned(), alias.name.to_owned());
            }
            key = alias.of;
            // If a key has two values, Proxmox VE 8 uses the last one.
            if self.schema.release >= Release::V9 && fields.contains_key(key) {
                return Err(format!("key '{key}' is already defined (via alias)"));
            }
        }
        let is_flag = self.schema.get(key).is_some_and(|property| property.kind == ValueKind::Flag);
        fields.insert(key.to_owned(), if is_flag { plain_flag(value) } else { value.to_owned() });
        Ok(())
    }

    fn add_bare_value(
        &self,
        fields: &mut BTreeMap<String, String>,
        value: &str,
        seen: bool,
    ) -> Result<(), String> {
        let Some((key, property)) = self.default_key() else {
            return Err("value without key, but schema does not define a default key".to_owned());
        };
        if seen || fields.get(key).is_some_and(|value| is_true(value)) {
            return Err(format!("duplicate key in comma-separated list property: {key}"));
        }
        // Without a key, Proxmox VE 8 accepts only `0` and `1` as booleans, and no other words.
        let is_flag = property.kind == ValueKind::Flag && self.schema.release >= Release::V9;
        fields.insert(key.to_owned(), if is_flag { plain_flag(value) } else { value.to_owned() });
        Ok(())
    }

    /// Writes a property string: first the default key, then the required keys, then all other keys. Each group is sorted by
    /// name.
    pub(crate) fn print(&self, fields: &Fields) -> String {
        let mut parts = Vec::new();
        let mut combined = None;
        let default_key = self.default_key().map(|(key, _)| key);
        if let Some(key) = default_key
            && let Some(value) = fields.get(key)
        {
            let alias = self.aliases.iter().find(|alias| alias.key == Some(key));
            match alias.and_then(|alias| Some((alias.of, fields.get(alias.of)?))) {
                Some((of, of_value)) => {
                    combined = Some(of);
                    parts.push(format!("{value}={of_value}"));
                }
                None => parts.push(value.to_owned()),
            }
        }
        let is_required =
            |key: &str| self.schema.plain.get(key).is_some_and(|property| property.required);
        for required in [true, false] {
            for (key, value) in fields.iter() {
                let done = Some(key) == default_key || Some(key) == combined;
                if !done && is_required(key) == required {
                    parts.push(format!("{key}={}", self.print_value(key, value)));
                }
            }
        }
        parts.join(",")
    }

    fn print_value(&self, key: &str, value: &str) -> String {
        match self.schema.get(key).and_then(|property| property.rule.as_ref()) {
            Some(ValueCheck::Value(value_format)) if value_format.name == "disk-size" => {
                parse_size(value).map_or_else(|| value.to_owned(), format_size)
            }
            _ => value.to_owned(),
        }
    }
}

/// Converts a boolean word such as `on` to `1` or `0`. Other texts stay unchanged.
fn plain_flag(text: &str) -> String {
    boolean(text).map_or_else(|| text.to_owned(), |flag| u8::from(flag).to_string())
}

/// Keys of a property string with their values.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Fields(BTreeMap<String, String>);

impl Fields {
    pub(crate) fn get(&self, key: &str) -> Option<&str> {
        self.0.get(key).map(String::as_str)
    }

    pub(crate) fn has(&self, key: &str) -> bool {
        self.0.contains_key(key)
    }

    pub(crate) fn flag(&self, key: &str) -> Option<bool> {
        self.get(key).map(|value| value == "1")
    }

    pub(crate) fn number(&self, key: &str) -> Option<i64> {
        self.get(key)?.parse().ok()
    }

    pub(crate) fn set(&mut self, key: &str, value: impl Into<String>) {
        self.0.insert(key.to_owned(), value.into());
    }

    pub(crate) fn remove(&mut self, key: &str) -> Option<String> {
        self.0.remove(key)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(key, value)| (key.as_str(), value.as_str()))
    }
}

/// Reason why a text is not a valid property string.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Malformed {
    /// The text as a whole is malformed.
    Text(String),
    Keys(BTreeMap<String, String>),
}

/// Error text without the trailing newline.
impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Text(text) => f.write_str(text),
            Self::Keys(errors) => {
                f.write_str("format error")?;
                errors.iter().try_for_each(|(key, error)| write!(f, "\n{key}: {error}"))
            }
        }
    }
}
