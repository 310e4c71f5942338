//! What a key holds, and what a stronger layer does to it.

use std::fmt;

use serde_json::{Value as Json, json};
use talmox_yaml::{Node, Scalar};

use super::{Context, Explained, Key, Schemas, closest};
use crate::diagnostic::{Code, Diagnostic};
use crate::source::Span;

/// A value that is written as one scalar.
pub(crate) trait Leaf: Sized {
    /// What is expected, for messages: "a size such as `40G`".
    const EXPECTED: &'static str;
    /// Reads the scalar. The error says what is wrong with a well-typed but bad value; `None` that
    /// it is not such a value at all.
    fn parse(scalar: &Scalar) -> Result<Self, Option<String>>;
    fn schema() -> Json;
    fn show(&self) -> String;
    /// The words there are to choose from, if it is one of a few.
    const WORDS: &'static [&'static str] = &[];
}

/// A value that can stand in a list or under a key.
pub(crate) trait Element: Sized {
    /// One of them may stand where a list of them is expected.
    const MAY_STAND_ALONE: bool = false;
    /// So many of a list are looked at; nobody writes more.
    const MOST: usize = 200_000;
    fn decode(value: &Node, cx: &mut Context<'_>) -> Option<Self>;
    fn schema(schemas: &mut Schemas) -> Json;
    fn explain(&self, path: &str, span: Option<Span>, out: &mut Vec<Explained>);
}

/// What a key of a mapping holds.
pub(crate) trait Slot: Default {
    fn fill(&mut self, key: Key<'_>, value: &Node, cx: &mut Context<'_>);
    /// Lays a stronger layer over this one.
    fn overlay(&mut self, stronger: Self);
    /// Puts built-in values where the layers left none.
    fn settle(&mut self, _builtin: &Self) {}
    /// Notes that something was meant for it which could not be read, and has been reported: then
    /// it is not missing.
    fn spoil(&mut self, _span: Span) {}
    /// True after an explicit `null`.
    fn is_taken_back(&self) -> bool {
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

/// A value and its place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Spanned<T> {
    pub value: T,
    pub span: Span,
}

/// A single setting: a stronger layer replaces it, and an explicit `null` takes it back to what is
/// built in.
#[derive(Clone, Default, PartialEq, Eq)]
pub enum Setting<T> {
    #[default]
    Unset,
    Null(Span),
    /// Something is there, but not such a value; that has been reported.
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

    /// Nothing is there, or only `null`. What is there and could not be read is not absent: it has
    /// been reported.
    pub fn is_absent(&self) -> bool {
        matches!(self, Self::Unset | Self::Null(_))
    }

    /// The value of a setting that the built-in layer always gives.
    pub fn required(&self) -> &T {
        self.get().expect("invariant: the built-in settings give every node this value")
    }
}

impl<T: Element + Clone> Slot for Setting<T> {
    fn fill(&mut self, key: Key<'_>, value: &Node, cx: &mut Context<'_>) {
        if let Some(first) = self.span() {
            let message = format!("`{}` is given under two names", key.written);
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

    fn settle(&mut self, builtin: &Self) {
        if self.get().is_none() && builtin.is_given() {
            *self = builtin.clone();
        }
    }

    fn spoil(&mut self, span: Span) {
        if self.is_absent() {
            *self = Self::Bad(span);
        }
    }

    fn is_taken_back(&self) -> bool {
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

/// `null` is allowed for every setting: it takes the value of a weaker layer back.
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
