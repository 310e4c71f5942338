//! What a key holds, and what a stronger layer does to it.

use std::collections::BTreeSet;
use std::fmt;

use serde_json::{Value as Json, json};
use talmox_yaml::{Node, Scalar};

use super::{Context, Explained, Key, Schemas};
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
}

/// A value that can stand in a list or under a key.
pub(crate) trait Element: Sized {
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
            Ok(leaf) => Some(leaf),
            Err(None) => {
                cx.wrong_type(value, T::EXPECTED);
                None
            }
            Err(Some(problem)) => {
                let span = cx.span(value);
                let diagnostic = Diagnostic::error(Code::BadValue, problem).at(span);
                cx.report(diagnostic.hint(format!("expected {}", T::EXPECTED)));
                None
            }
        }
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
fn nullable(mut schema: Json) -> Json {
    if let Some(kind) = schema.get_mut("type").filter(|kind| kind.is_string()) {
        *kind = json!([kind, "null"]);
        return schema;
    }
    if let Some(words) = schema.get_mut("enum").and_then(Json::as_array_mut) {
        words.push(Json::Null);
        return schema;
    }
    json!({ "anyOf": [schema, { "type": "null" }] })
}

/// Reads the items of a list. Items that are wrong are reported and left out.
fn decode_items<T: Element>(value: &Node, cx: &mut Context<'_>) -> Option<Vec<Spanned<T>>> {
    let Some(seq) = value.as_seq() else {
        cx.wrong_type(value, "a list");
        return None;
    };
    let mut items = Vec::with_capacity(seq.items.len());
    for item in &seq.items {
        let span = cx.span(item);
        if let Some(value) = T::decode(item, cx) {
            items.push(Spanned { value, span });
        }
    }
    Some(items)
}

fn list_schema<T: Element>(schemas: &mut Schemas) -> Json {
    nullable(json!({ "type": "array", "items": T::schema(schemas) }))
}

fn explain_items<T: Element>(items: &[Spanned<T>], path: &str, out: &mut Vec<Explained>) {
    for (index, item) in items.iter().enumerate() {
        item.value.explain(&format!("{path}[{index}]"), Some(item.span), out);
    }
}

/// Declares a kind of list by what a stronger layer does to it.
macro_rules! list_kind {
    ($(#[doc = $doc:literal])+ $name:ident, $bound:path, |$weak:ident, $strong:ident| $merge:expr) => {
        $(#[doc = $doc])+
        #[derive(Clone, Debug, PartialEq, Eq)]
        pub struct $name<T> {
            pub items: Vec<Spanned<T>>,
            /// The key it stands under, in the strongest layer that has it.
            pub span: Option<Span>,
        }

        impl<T> Default for $name<T> {
            fn default() -> Self {
                Self { items: vec![], span: None }
            }
        }

        impl<T> $name<T> {
            pub fn iter(&self) -> impl ExactSizeIterator<Item = &Spanned<T>> {
                self.items.iter()
            }

            pub fn values(&self) -> impl ExactSizeIterator<Item = &T> {
                self.items.iter().map(|item| &item.value)
            }

            pub fn is_empty(&self) -> bool {
                self.items.is_empty()
            }
        }

        impl<T: Element + $bound> Slot for $name<T> {
            fn fill(&mut self, key: Key<'_>, value: &Node, cx: &mut Context<'_>) {
                self.span = Some(key.span);
                if !value.is_null() {
                    self.items = decode_items(value, cx).unwrap_or_default();
                }
            }

            fn overlay(&mut self, stronger: Self) {
                if stronger.span.is_some() {
                    self.span = stronger.span;
                    let ($weak, $strong) = (&mut self.items, stronger.items);
                    $merge;
                }
            }

            fn schema(schemas: &mut Schemas) -> Json {
                list_schema::<T>(schemas)
            }

            fn explain(&self, path: &str, out: &mut Vec<Explained>) {
                explain_items(&self.items, path, out);
            }
        }
    };
}

list_kind! {
    /// A list that a stronger layer replaces.
    List, Sized, |weak, strong| *weak = strong
}

list_kind! {
    /// A list that adds up over the layers; what is there already is not added again.
    Sum, PartialEq, |weak, strong| for item in strong {
        if !weak.iter().any(|other| other.value == item.value) {
            weak.push(item);
        }
    }
}

list_kind! {
    /// A list that stronger layers are appended to, in order.
    Chain, Sized, |weak, strong| weak.extend(strong)
}

/// Names chosen by the user, each with a value; merged name by name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Table<S> {
    pub entries: Vec<(Spanned<String>, S)>,
}

impl<S> Default for Table<S> {
    fn default() -> Self {
        Self { entries: vec![] }
    }
}

impl<S> Table<S> {
    pub fn get(&self, name: &str) -> Option<&S> {
        self.entries.iter().find(|(key, _)| key.value == name).map(|(_, value)| value)
    }

    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.entries.iter().map(|(key, _)| key.value.as_str())
    }

    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }
}

impl<S: Slot> Slot for Table<S> {
    fn fill(&mut self, _: Key<'_>, value: &Node, cx: &mut Context<'_>) {
        if value.is_null() {
            return;
        }
        let Some(map) = value.as_map() else {
            cx.wrong_type(value, "a mapping");
            return;
        };
        let mut names = BTreeSet::new();
        for entry in &map.entries {
            let span = cx.span(&entry.key);
            let Some(name) = entry.key.as_str() else {
                cx.wrong_type(&entry.key, "a name");
                continue;
            };
            if !names.insert(name) {
                let message = format!("`{name}` is given twice");
                let first = self.entries.iter().find(|(key, _)| key.value == name);
                cx.report(
                    Diagnostic::error(Code::DuplicateKey, message)
                        .at(span)
                        .related(first.map(|(key, _)| key.span), "first given here")
                        .hint("keep one of the two"),
                );
                continue;
            }
            let mut slot = S::default();
            slot.fill(Key { written: name, span }, &entry.value, cx);
            self.entries.push((Spanned { value: name.to_owned(), span }, slot));
        }
    }

    fn overlay(&mut self, stronger: Self) {
        for (key, value) in stronger.entries {
            match self.entries.iter_mut().find(|(other, _)| other.value == key.value) {
                Some((_, weaker)) => weaker.overlay(value),
                None => self.entries.push((key, value)),
            }
        }
    }

    fn schema(schemas: &mut Schemas) -> Json {
        nullable(json!({ "type": "object", "additionalProperties": S::schema(schemas) }))
    }

    fn explain(&self, path: &str, out: &mut Vec<Explained>) {
        for (key, value) in &self.entries {
            value.explain(&format!("{path}.{}", key.value), out);
        }
    }
}

/// One value, or a list of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OneOrMany<T>(pub Vec<Spanned<T>>);

impl<T> OneOrMany<T> {
    pub fn values(&self) -> impl Iterator<Item = &T> {
        self.0.iter().map(|item| &item.value)
    }
}

impl<T: Element> Element for OneOrMany<T> {
    fn decode(value: &Node, cx: &mut Context<'_>) -> Option<Self> {
        if value.as_seq().is_some() {
            return decode_items(value, cx).map(Self);
        }
        let span = cx.span(value);
        T::decode(value, cx).map(|value| Self(vec![Spanned { value, span }]))
    }

    fn schema(schemas: &mut Schemas) -> Json {
        let one = T::schema(schemas);
        json!({ "anyOf": [one, { "type": "array", "items": one }] })
    }

    fn explain(&self, path: &str, span: Option<Span>, out: &mut Vec<Explained>) {
        match self.0.as_slice() {
            [one] => one.value.explain(path, span, out),
            many => explain_items(many, path, out),
        }
    }
}
