//! Values of keys, and the rules for merging the values of layers.

use std::fmt;

use serde_json::{Value as Json, json};
use talmox_yaml::{Node, Scalar};

use super::{Context, Explained, Key, Schemas, closest};
use crate::diagnostic::{Code, Diagnostic};
use crate::source::Span;

/// Value that is written as one scalar.
pub(crate) trait Leaf: Sized {
    /// Expected value for messages, such as "a size such as `40G`".
    const EXPECTED: &'static str;
    /// Parses the scalar. If the scalar has the right type but is invalid, the error contains the problem. If it has
    /// another type, the error is `None`.
    fn parse(scalar: &Scalar) -> Result<Self, Option<String>>;
    fn schema() -> Json;
    fn show(&self) -> String;
    /// Allowed words, if the value is one of a few words. Otherwise empty.
    const WORDS: &'static [&'static str] = &[];
}

/// Value that can be an item of a list or the value of a key.
pub(crate) trait Element: Sized {
    /// Whether a single value may be written in place of a list with one value.
    const MAY_STAND_ALONE: bool = false;
    /// Maximum number of items that are read from a list.
    const MOST: usize = 200_000;
    fn decode(value: &Node, cx: &mut Context<'_>) -> Option<Self>;
    fn schema(schemas: &mut Schemas) -> Json;
    fn explain(&self, path: &str, span: Option<Span>, out: &mut Vec<Explained>);
}

/// Type of the value of a key in a mapping of the inventory.
pub(crate) trait Slot: Default {
    fn fill(&mut self, key: Key<'_>, value: &Node, cx: &mut Context<'_>);
    /// Merges the value of a layer with higher precedence into this value.
    fn overlay(&mut self, stronger: Self);
    /// Sets the built-in value if no layer sets a value.
    fn apply_builtin(&mut self, _builtin: &Self) {}
    /// Marks the value as given but invalid, so that it is not reported as missing.
    fn mark_invalid(&mut self, _span: Span) {}
    /// Whether the value is an explicit `null`.
    fn is_removed(&self) -> bool {
        false
    }
    fn schema(schemas: &mut Schemas) -> Json;
    fn explain(&self, path: &str, out: &mut Vec<Explained>);
}

impl<T: Leaf> Element for T {
    fn decode(value: &Node, cx: &mut Context<'_>) -> Option<Self> {
        let Some(scalar) = value.as_scalar() else {
            cx.wrong_type(value, T::EXPECTED);
            return None;
        };
        match T::parse(scalar) {
            Ok(leaf) => return Some(leaf),
            Err(None) => match closest(&scalar.text, T::WORDS.iter().copied()) {
                Some(word) => cx.wrong_word(value, T::EXPECTED, word),
                None => cx.wrong_type(value, T::EXPECTED),
            },
            Err(Some(problem)) => cx.bad_value(value, problem, T::EXPECTED),
        }
        None
    }

    fn schema(_: &mut Schemas) -> Json {
        T::schema()
    }

    fn explain(&self, path: &str, span: Option<Span>, out: &mut Vec<Explained>) {
        out.push(Explained { path: path.to_owned(), value: self.show(), span });
    }
}

/// Value with its position.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Spanned<T> {
    pub value: T,
    pub span: Span,
}

/// Single setting. The value of a layer with higher precedence replaces it. An explicit `null` resets it to the
/// built-in value.
#[derive(Clone, Default, PartialEq, Eq)]
pub enum Setting<T> {
    #[default]
    Unset,
    Null(Span),
    /// The value is invalid, and this was already reported.
    Bad(Span),
    Given(Spanned<T>),
}

impl<T: fmt::Debug> fmt::Debug for Setting<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.get() {
            Some(value) => value.fmt(f),
            None => f.write_str("-"),
        }
    }
}

impl<T> Setting<T> {
    pub fn get(&self) -> Option<&T> {
        match self {
            Self::Given(spanned) => Some(&spanned.value),
            _ => None,
        }
    }

    pub fn spanned(&self) -> Option<&Spanned<T>> {
        match self {
            Self::Given(spanned) => Some(spanned),
            _ => None,
        }
    }

    pub fn span(&self) -> Option<Span> {
        match self {
            Self::Unset => None,
            Self::Null(span) | Self::Bad(span) => Some(*span),
            Self::Given(spanned) => Some(spanned.span),
        }
    }

    pub fn is_given(&self) -> bool {
        self.get().is_some()
    }

    /// Whether the setting is not given or is `null`. An invalid value is not absent, because it was already reported.
    pub fn is_absent(&self) -> bool {
        matches!(self, Self::Unset | Self::Null(_))
    }

    /// Value of a setting that always has a built-in value.
    pub fn required(&self) -> &T {
        self.get().expect("invariant: the built-in settings give every node this value")
    }
}

impl<T: Element + Clone> Slot for Setting<T> {
    fn fill(&mut self, key: Key<'_>, value: &Node, cx: &mut Context<'_>) {
        if let Some(first) = self.span() {
            let message = format!("`{}` is set under two names", key.written);
            cx.report(
                Diagnostic::error(Code::AliasConflict, message)
                    .at(key.span)
                    .related(first, "first given here")
                    .hint("keep one of the two"),
            );
            return;
        }
        let span = cx.span(value);
        *self = if value.is_null() {
            Self::Null(span)
        } else {
            T::decode(value, cx)
                .map_or(Self::Bad(span), |value| Self::Given(Spanned { value, span }))
        };
    }

    fn overlay(&mut self, stronger: Self) {
        if !matches!(stronger, Self::Unset) {
            *self = stronger;
        }
    }

    fn apply_builtin(&mut self, builtin: &Self) {
        if self.get().is_none() && builtin.is_given() {
            *self = builtin.clone();
        }
    }

    fn mark_invalid(&mut self, span: Span) {
        if self.is_absent() {
            *self = Self::Bad(span);
        }
    }

    fn is_removed(&self) -> bool {
        matches!(self, Self::Null(_))
    }

    fn schema(schemas: &mut Schemas) -> Json {
        nullable(T::schema(schemas))
    }

    fn explain(&self, path: &str, out: &mut Vec<Explained>) {
        if let Self::Given(spanned) = self {
            spanned.value.explain(path, Some(spanned.span), out);
        }
    }
}

/// Schema that also allows `null`. A `null` removes the value of layers with lower precedence.
pub(super) fn nullable(mut schema: Json) -> Json {
    match schema.get_mut("type") {
        Some(Json::Array(kinds)) => {
            kinds.push(json!("null"));
            return schema;
        }
        Some(kind) => {
            *kind = json!([kind, "null"]);
            return schema;
        }
        None => {}
    }
    if let Some(words) = schema.get_mut("enum").and_then(Json::as_array_mut) {
        words.push(Json::Null);
        return schema;
    }
    json!({ "anyOf": [schema, { "type": "null" }] })
}
