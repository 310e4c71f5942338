//! List types. They differ in how layers are merged.

use std::collections::HashSet;
use std::hash::Hash;
use std::mem;

use serde_json::{Value as Json, json};
use talmox_yaml::Node;

use super::slot::nullable;
use super::{Context, Element, Explained, Key, Schemas, Shared, Slot, Spanned};
use crate::diagnostic::{Code, Diagnostic};
use crate::source::Span;

/// Reads the items of a list. Invalid items are reported and omitted.
pub(super) fn decode_items<T: Element>(
    value: &Node,
    cx: &mut Context<'_>,
) -> Option<Vec<Spanned<T>>> {
    let Some(seq) = value.as_seq() else {
        // A single item in place of a list counts as a list with one item.
        if T::MAY_STAND_ALONE {
            let span = cx.span(value);
            return T::decode(value, cx).map(|value| vec![Spanned { value, span }]);
        }
        cx.wrong_type(value, "a list such as `[a, b]`");
        return None;
    };
    if seq.items.len() > T::MOST {
        let message = format!("a list of {} items is too long", seq.items.len());
        let hint = format!("use fewer items; only the first {} are read", T::MOST);
        let span = cx.span(value);
        cx.report(Diagnostic::error(Code::BadValue, message).at(span).hint(hint));
    }
    let mut items = Vec::with_capacity(seq.items.len().min(T::MOST));
    for item in seq.items.iter().take(T::MOST) {
        let span = cx.span(item);
        if item.is_null() {
            let hint = "remove the item, or write a value after the dash or between the commas";
            let diagnostic = Diagnostic::error(Code::WrongType, "an item of the list is empty");
            cx.report(diagnostic.at(span).hint(hint));
            continue;
        }
        if let Some(value) = T::decode(item, cx) {
            items.push(Spanned { value, span });
        }
    }
    Some(items)
}

pub(super) fn list_schema<T: Element>(schemas: &mut Schemas) -> Json {
    let item = T::schema(schemas);
    let list = json!({ "type": "array", "items": item });
    if T::MAY_STAND_ALONE {
        return json!({ "anyOf": [item, list, { "type": "null" }] });
    }
    nullable(list)
}

pub(super) fn explain_items<'a, T: Element + 'a>(
    items: impl IntoIterator<Item = &'a Spanned<T>>,
    path: &str,
    out: &mut Vec<Explained>,
) {
    for (index, item) in items.into_iter().enumerate() {
        item.value.explain(&format!("{path}[{index}]"), Some(item.span), out);
    }
}

/// Declares a list type. `$merge` merges the items of a layer with higher precedence into the list.
macro_rules! list_kind {
    ($(#[doc = $doc:literal])+ $name:ident, [$($bound:tt)+], $merge:path) => {
        $(#[doc = $doc])+
        #[derive(Clone, Debug, PartialEq, Eq)]
        pub struct $name<T> {
            pub items: Shared<Spanned<T>>,
            /// Position of the key of the list, in the layer with the highest precedence that contains the key.
            pub span: Option<Span>,
            /// Set by an explicit `null`, which removes the items of layers with lower precedence.
            cleared: bool,
            /// Whether the value is given but invalid. If so, this was already reported.
            bad: bool,
        }

        impl<T> Default for $name<T> {
            fn default() -> Self {
                Self { items: Shared::default(), span: None, cleared: false, bad: false }
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

            /// Whether the value is given but invalid.
            pub fn is_bad(&self) -> bool {
                self.bad
            }
        }

        impl<T: Element + $($bound)+> Slot for $name<T> {
            fn fill(&mut self, key: Key<'_>, value: &Node, cx: &mut Context<'_>) {
                self.span = Some(key.span);
                if value.is_null() {
                    self.cleared = true;
                    return;
                }
                match decode_items(value, cx) {
                    Some(items) => {
                        self.bad = value.as_seq().is_some_and(|seq| seq.items.len() > items.len());
                        self.items = items.into();
                    }
                    None => self.bad = true,
                }
            }

            fn overlay(&mut self, stronger: Self) {
                if stronger.cleared {
                    *self = stronger;
                } else if stronger.span.is_some() {
                    self.span = stronger.span;
                    self.bad |= stronger.bad;
                    $merge(&mut self.items, stronger.items);
                }
            }

            fn mark_invalid(&mut self, span: Span) {
                self.span = self.span.or(Some(span));
                self.bad = true;
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
    /// List that is replaced by the list of a layer with higher precedence.
    List, [Clone], replace
}

list_kind! {
    /// List whose items are combined from all layers, without duplicates.
    Sum, [Clone + Eq + Hash], add_up
}

fn replace<T>(weak: &mut Shared<Spanned<T>>, strong: Shared<Spanned<T>>) {
    *weak = strong;
}

fn add_up<T: Clone + Eq + Hash>(weak: &mut Shared<Spanned<T>>, strong: Shared<Spanned<T>>) {
    if strong.is_empty() {
        return;
    }
    let mut known: HashSet<&T> = weak.iter().map(|item| &item.value).collect();
    let fresh: Vec<bool> = strong.iter().map(|item| known.insert(&item.value)).collect();
    if !fresh.contains(&true) {
        return;
    }
    let mut is_fresh = fresh.into_iter();
    let added = strong.into_items().into_iter().filter(|_| is_fresh.next() == Some(true));
    weak.change().extend(added);
}

/// List to which layers with higher precedence append their items, in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Chain<T> {
    /// Items of each layer.
    parts: Vec<Shared<Spanned<T>>>,
    /// Position of the key of the list, in the layer with the highest precedence that contains the key.
    pub span: Option<Span>,
    cleared: bool,
}

impl<T> Default for Chain<T> {
    fn default() -> Self {
        Self { parts: vec![], span: None, cleared: false }
    }
}

impl<T> Chain<T> {
    pub fn iter(&self) -> impl Iterator<Item = &Spanned<T>> {
        self.parts.iter().flatten()
    }

    pub fn values(&self) -> impl Iterator<Item = &T> {
        self.iter().map(|item| &item.value)
    }

    pub fn is_empty(&self) -> bool {
        self.parts.iter().all(|part| part.is_empty())
    }

    /// Items of each layer, lowest precedence first. Nodes share these lists.
    pub(crate) fn parts(&self) -> &[Shared<Spanned<T>>] {
        &self.parts
    }
}

impl<T: Element + Clone> Slot for Chain<T> {
    fn fill(&mut self, key: Key<'_>, value: &Node, cx: &mut Context<'_>) {
        self.span = Some(key.span);
        if value.is_null() {
            self.cleared = true;
        } else if let Some(items) = decode_items(value, cx) {
            self.parts = vec![items.into()];
        }
    }

    fn overlay(&mut self, stronger: Self) {
        if stronger.cleared {
            *self = stronger;
        } else if stronger.span.is_some() {
            self.span = stronger.span;
            if self.parts.is_empty() {
                self.parts = stronger.parts;
            } else {
                self.parts.extend(stronger.parts);
            }
        }
    }

    fn schema(schemas: &mut Schemas) -> Json {
        list_schema::<T>(schemas)
    }

    fn explain(&self, path: &str, out: &mut Vec<Explained>) {
        explain_items(self.iter(), path, out);
    }
}

/// One value, or a list of values.
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

/// Moves the items out of a list. The list becomes empty but keeps its position.
pub(crate) fn take_items<T: Clone>(list: &mut List<T>) -> Vec<Spanned<T>> {
    mem::take(&mut list.items).into_items()
}
