//! Mappings: declared once, used for everything.

use serde_json::{Map, Value as Json};
use talmox_yaml::Node;

use super::context::excerpt;
use super::{Context, Explained, Key, Schemas, closest};
use crate::diagnostic::{Code, Diagnostic};
use crate::source::Span;

/// A set of keys, as declared with [`mapping!`](mapping).
pub(crate) trait Mapping: Default {
    /// The name of the struct, for the schema.
    const TYPE: &'static str;
    /// What it is, for people: the doc comment.
    const DOC: &'static str;
    /// How messages call it: "a node", "network".
    const CALLED: &'static str;

    /// The canonical name of a key that may be an alias.
    fn canonical(key: &str) -> Option<&'static str>;

    /// All keys, aliases behind their canonical name.
    fn keys(out: &mut Vec<&'static str>);

    /// Reads one entry by its canonical name.
    fn read(&mut self, name: &str, key: Key<'_>, value: &Node, cx: &mut Context<'_>);

    /// The schema of every key.
    fn properties(schemas: &mut Schemas, out: &mut Map<String, Json>);

    /// Lays a stronger layer over this one.
    fn overlay(&mut self, stronger: Self);

    /// Puts built-in values where the layers left none.
    fn settle(&mut self, builtin: &Self);

    /// One row for each value that is set.
    fn explain(&self, path: &str, out: &mut Vec<Explained>);
}

/// Reads all entries of a mapping, and reports unknown, doubled and aliased keys.
pub(crate) fn read_mapping<M: Mapping>(target: &mut M, node: &Node, cx: &mut Context<'_>) -> bool {
    let Some(map) = node.as_map() else {
        cx.wrong_type(node, &format!("a mapping ({})", M::CALLED));
        return false;
    };
    let mut seen: Vec<(&'static str, &str, Span)> = Vec::with_capacity(map.entries.len());
    for entry in &map.entries {
        let span = cx.span(&entry.key);
        let Some(written) = entry.key.as_str() else {
            cx.wrong_type(&entry.key, "a word as the key");
            continue;
        };
        let Some(name) = M::canonical(written) else {
            unknown_key::<M>(written, span, &entry.value, cx);
            continue;
        };
        if let Some((_, first, first_span)) = seen.iter().find(|(other, ..)| *other == name) {
            let diagnostic = if *first == written {
                Diagnostic::error(Code::DuplicateKey, format!("`{written}` is given twice"))
                    .hint("keep one of the two")
            } else {
                let message = format!("`{first}` and `{written}` are two names of one setting");
                Diagnostic::error(Code::AliasConflict, message)
                    .hint(format!("keep `{name}`, the name that the documentation uses"))
            };
            cx.report(diagnostic.at(span).related(*first_span, "first given here"));
            continue;
        }
        seen.push((name, written, span));
        target.read(name, Key { written, span }, &entry.value, cx);
    }
    true
}

fn unknown_key<M: Mapping>(written: &str, span: Span, value: &Node, cx: &mut Context<'_>) {
    let mut keys = vec![];
    M::keys(&mut keys);
    let message = format!("unknown key `{}` in {}", excerpt(written), M::CALLED);
    let mut diagnostic = Diagnostic::error(Code::UnknownKey, message).at(span);
    diagnostic = match closest(written, keys.iter().copied()) {
        Some(key) => {
            // A misspelled `password` still has a password behind it.
            if matches!(key, "token" | "password" | "auth_key") && value.as_scalar().is_some() {
                cx.hide(value);
            }
            diagnostic.hint(format!("did you mean `{key}`?"))
        }
        None if keys.len() <= 12 => diagnostic.hint(format!("known keys: {}", keys.join(", "))),
        None => diagnostic.hint("`talmox schema` lists every key"),
    };
    cx.report(diagnostic);
}

/// Declares a mapping of the language: its keys with documentation, aliases and types. `..name`
/// takes in the keys of another mapping; `"alias" => field (Type).key` gives a key of a nested
/// mapping a second, flat name.
macro_rules! mapping {
    (
        $(#[doc = $doc:literal])+
        called $called:literal
        pub struct $name:ident {
            $(
                $(#[doc = $field_doc:literal])+
                $field:ident $([$($alias:literal),+])? : $type:ty,
            )*
            $(..$flat:ident : $flat_type:ty,)*
            $($nested_alias:literal => $outer:ident ($outer_type:ty) . $inner:ident,)*
        }
    ) => {
        $(#[doc = $doc])+
        #[derive(Clone, Debug, Default, PartialEq)]
        pub struct $name {
            /// Where the mapping stands; the strongest layer that has it.
            pub span: Option<$crate::source::Span>,
            /// Set by an explicit `null`: nothing of weaker layers is left.
            pub cleared: bool,
            $($(#[doc = $field_doc])+ pub $field: $type,)*
            $(pub $flat: $flat_type,)*
        }

        impl $crate::language::Mapping for $name {
            const TYPE: &'static str = stringify!($name);
            const DOC: &'static str = concat!($($doc, "\n",)+).trim_ascii();
            const CALLED: &'static str = $called;

            fn canonical(key: &str) -> Option<&'static str> {
                match key {
                    $(stringify!($field) $($(| $alias)+)? => Some(stringify!($field)),)*
                    $($nested_alias => Some($nested_alias),)*
                    _ => None $(.or_else(|| <$flat_type>::canonical(key)))*,
                }
            }

            fn keys(out: &mut Vec<&'static str>) {
                $(out.push(stringify!($field)); $($(out.push($alias);)+)?)*
                $(<$flat_type>::keys(out);)*
                $(out.push($nested_alias);)*
            }

            fn read(
                &mut self,
                name: &str,
                key: $crate::language::Key<'_>,
                value: &talmox_yaml::Node,
                cx: &mut $crate::language::Context<'_>,
            ) {
                match name {
                    $(stringify!($field) => {
                        $crate::language::Slot::fill(&mut self.$field, key, value, cx);
                    })*
                    $($nested_alias => self.$outer.read(stringify!($inner), key, value, cx),)*
                    _ => { $(self.$flat.read(name, key, value, cx);)* }
                }
            }

            fn properties(
                schemas: &mut $crate::language::Schemas,
                out: &mut serde_json::Map<String, serde_json::Value>,
            ) {
                $({
                    let doc = concat!($($field_doc, "\n",)+).trim_ascii();
                    let schema = $crate::language::described(
                        <$type as $crate::language::Slot>::schema(schemas), doc);
                    $($(out.insert($alias.to_owned(), $crate::language::described(
                        schema.clone(), concat!("The same as `", stringify!($field), "`.")));)+)?
                    out.insert(stringify!($field).to_owned(), schema);
                })*
                $(<$flat_type>::properties(schemas, out);)*
                $({
                    let mut nested = serde_json::Map::new();
                    <$outer_type>::properties(schemas, &mut nested);
                    let schema = nested
                        .remove(stringify!($inner))
                        .expect("invariant: a flat alias names a key that exists");
                    out.insert($nested_alias.to_owned(), $crate::language::described(schema, concat!(
                        "The same as `", stringify!($outer), ".", stringify!($inner), "`.")));
                })*
            }

            fn overlay(&mut self, stronger: Self) {
                if stronger.cleared {
                    *self = stronger;
                    return;
                }
                self.span = stronger.span.or(self.span);
                $($crate::language::Slot::overlay(&mut self.$field, stronger.$field);)*
                $($crate::language::Mapping::overlay(&mut self.$flat, stronger.$flat);)*
            }

            fn settle(&mut self, builtin: &Self) {
                $($crate::language::Slot::settle(&mut self.$field, &builtin.$field);)*
                $($crate::language::Mapping::settle(&mut self.$flat, &builtin.$flat);)*
            }

            fn explain(&self, path: &str, out: &mut Vec<$crate::language::Explained>) {
                $({
                    let dot = if path.is_empty() { "" } else { "." };
                    let path = format!("{path}{dot}{}", stringify!($field));
                    $crate::language::Slot::explain(&self.$field, &path, out);
                })*
                $($crate::language::Mapping::explain(&self.$flat, path, out);)*
            }
        }

        // As the value of a key.
        impl $crate::language::Slot for $name {
            fn fill(
                &mut self,
                key: $crate::language::Key<'_>,
                value: &talmox_yaml::Node,
                cx: &mut $crate::language::Context<'_>,
            ) {
                self.span = Some(key.span);
                if value.is_null() {
                    self.cleared = true;
                } else {
                    $crate::language::read_mapping(self, value, cx);
                }
            }

            fn overlay(&mut self, stronger: Self) {
                $crate::language::Mapping::overlay(self, stronger);
            }

            fn settle(&mut self, builtin: &Self) {
                $crate::language::Mapping::settle(self, builtin);
            }

            fn schema(schemas: &mut $crate::language::Schemas) -> serde_json::Value {
                schemas.mapping::<Self>()
            }

            fn explain(&self, path: &str, out: &mut Vec<$crate::language::Explained>) {
                $crate::language::Mapping::explain(self, path, out);
            }
        }

        // As an item of a list.
        impl $crate::language::Element for $name {
            fn decode(
                value: &talmox_yaml::Node,
                cx: &mut $crate::language::Context<'_>,
            ) -> Option<Self> {
                let mut this = Self { span: Some(cx.span(value)), ..Self::default() };
                $crate::language::read_mapping(&mut this, value, cx).then_some(this)
            }

            fn schema(schemas: &mut $crate::language::Schemas) -> serde_json::Value {
                schemas.mapping::<Self>()
            }

            fn explain(
                &self,
                path: &str,
                _: Option<$crate::source::Span>,
                out: &mut Vec<$crate::language::Explained>,
            ) {
                $crate::language::Mapping::explain(self, path, out);
            }
        }
    };
}
pub(crate) use mapping;
