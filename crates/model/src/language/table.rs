//! Tables: mappings whose keys are names that the user chooses.

use std::collections::HashMap;
use std::marker::PhantomData;

use serde_json::{Value as Json, json};
use talmox_yaml::Node;

use super::slot::nullable;
use super::{Context, Explained, Key, Schemas, Shared, Slot, Spanned};
use crate::diagnostic::{Code, Diagnostic};
use crate::source::Span;

/// Rule for the names in a table.
pub(crate) trait Naming {
    /// Checks a name. The error contains the reason why the name is invalid.
    fn check(name: &str) -> Result<(), String>;
    /// Regular expression of the names, for the JSON schema.
    const PATTERN: Option<&'static str> = None;
    /// Expected names, for the hint.
    const EXPECTED: &'static str = "any name";
    /// Regular expression of the values, if the values are scalars.
    const VALUE_PATTERN: Option<&'static str> = None;

    fn check_value(_: &str) -> Result<(), String> {
        Ok(())
    }
}

/// Rule that accepts any name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AnyName;

impl Naming for AnyName {
    fn check(_: &str) -> Result<(), String> {
        Ok(())
    }
}

/// Mapping whose keys are names that the user chooses. Layers are merged name by name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Table<S, N = AnyName> {
    pub entries: Shared<(Spanned<String>, S)>,
    /// Set by an explicit `null`, which removes the entries of layers with lower precedence.
    cleared: bool,
    bad: bool,
    naming: PhantomData<N>,
}

impl<S, N> Default for Table<S, N> {
    fn default() -> Self {
        Self { entries: Shared::default(), cleared: false, bad: false, naming: PhantomData }
    }
}

impl<S, N> Table<S, N> {
    pub fn get(&self, name: &str) -> Option<&S> {
        self.entries.iter().find(|(key, _)| key.value == name).map(|(_, value)| value)
    }

    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.entries.iter().map(|(key, _)| key.value.as_str())
    }

    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Whether the value is given but invalid.
    pub fn is_bad(&self) -> bool {
        self.bad
    }

    /// Index of the entries by name. It makes many lookups faster.
    pub(crate) fn index(&self) -> HashMap<&str, &S> {
        self.entries.iter().map(|(key, value)| (key.value.as_str(), value)).collect()
    }
}

impl<S: Slot + Clone, N: Naming> Slot for Table<S, N> {
    fn fill(&mut self, _: Key<'_>, value: &Node, cx: &mut Context<'_>) {
        if value.is_null() {
            self.cleared = true;
            return;
        }
        let Some(map) = value.as_map() else {
            cx.wrong_type(value, "a mapping such as `{name: value}`");
            self.bad = true;
            return;
        };
        let mut seen: HashMap<&str, Span> = HashMap::with_capacity(map.entries.len());
        let entries = self.entries.change();
        for entry in &map.entries {
            let span = cx.span(&entry.key);
            let Some(name) = entry.key.as_str() else {
                cx.wrong_type(&entry.key, "a name such as `a`");
                continue;
            };
            if let Err(problem) = N::check(name) {
                let hint = format!("write {}", N::EXPECTED);
                cx.report(Diagnostic::error(Code::BadValue, problem).at(span).hint(hint));
            }
            if let Some(first) = seen.get(name) {
                let message = format!("`{}` is set twice", super::context::excerpt(name));
                cx.report(
                    Diagnostic::error(Code::DuplicateKey, message)
                        .at(span)
                        .related(*first, "first given here")
                        .hint("keep one of the two"),
                );
                continue;
            }
            seen.insert(name, span);
            if let Some(text) = entry.value.as_str().filter(|_| !entry.value.is_null())
                && let Err(problem) = N::check_value(text)
            {
                cx.bad_value(&entry.value, problem, N::EXPECTED);
            }
            let mut slot = S::default();
            slot.fill(Key { written: name, span }, &entry.value, cx);
            entries.push((Spanned { value: name.to_owned(), span }, slot));
        }
    }

    fn overlay(&mut self, stronger: Self) {
        if stronger.cleared || self.entries.is_empty() {
            let (bad, cleared) = (self.bad, self.cleared);
            *self = stronger;
            self.bad |= bad;
            self.cleared |= cleared;
            return;
        }
        self.bad |= stronger.bad;
        if stronger.entries.is_empty() {
            return;
        }
        let places = self.entries.iter().enumerate();
        let places: HashMap<String, usize> =
            places.map(|(at, (key, _))| (key.value.clone(), at)).collect();
        let entries = self.entries.change();
        for (key, value) in stronger.entries.into_items() {
            match places.get(&key.value) {
                Some(at) => entries[*at].1.overlay(value),
                None => entries.push((key, value)),
            }
        }
    }

    /// Removes the entries whose value is `null`.
    fn apply_builtin(&mut self, _: &Self) {
        if self.entries.iter().any(|(_, value)| value.is_removed()) {
            self.entries.change().retain(|(_, value)| !value.is_removed());
        }
    }

    fn mark_invalid(&mut self, _: Span) {
        self.bad = true;
    }

    fn schema(schemas: &mut Schemas) -> Json {
        let mut value = S::schema(schemas);
        if let Some(pattern) = N::VALUE_PATTERN {
            value["pattern"] = json!(pattern);
        }
        let mut schema = json!({ "type": "object", "additionalProperties": value });
        if let Some(pattern) = N::PATTERN {
            schema["propertyNames"] = json!({ "pattern": pattern });
        }
        nullable(schema)
    }

    fn explain(&self, path: &str, out: &mut Vec<Explained>) {
        for (key, value) in &self.entries {
            value.explain(&format!("{path}.{}", key.value), out);
        }
    }
}
