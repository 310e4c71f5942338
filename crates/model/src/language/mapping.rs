//! Mappings: sets of keys. Each mapping is declared once, with `mapping!`.

use std::collections::HashMap;

use serde_json::{Map, Value as Json};
use talmox_yaml::Node;

use super::context::excerpt;
use super::secrecy::looks_secret;
use super::{Context, Explained, Key, Schemas, closest};
use crate::diagnostic::{Code, Diagnostic};
use crate::source::Span;

/// Set of keys that is declared with [`mapping!`](mapping).
pub(crate) trait Mapping: Default {
    /// Name of the struct, for the schema.
    const TYPE: &'static str;
    /// Description of the mapping, which is its doc comment.
    const DOC: &'static str;
    /// Name of the mapping in messages, such as "a node" or "network".
    const CALLED: &'static str;
    /// Required keys, for the JSON schema.
    const REQUIRED: &'static [&'static str];
    /// Prefix of keys that users may add for their own purposes, such as `x-` for anchors.
    const OWN_PREFIX: Option<&'static str>;

    /// Canonical name of a key or alias; `None` if the mapping does not have this key.
    fn canonical(key: &str) -> Option<&'static str>;

    /// Canonical names of all keys.
    fn keys(out: &mut Vec<&'static str>);

    /// All aliases.
    fn aliases(out: &mut Vec<&'static str>);

    /// Marks a key as given but invalid, so that it is not reported as missing.
    fn mark_key_invalid(&mut self, name: &str, span: Span);

    /// Marks every key as given but invalid.
    fn mark_invalid(&mut self, span: Span);

    /// Reads the value of the key with this canonical name.
    fn read(&mut self, name: &str, key: Key<'_>, value: &Node, cx: &mut Context<'_>);

    /// Adds the JSON schemas of all keys to `out`.
    fn properties(schemas: &mut Schemas, out: &mut Map<String, Json>);

    /// Merges a layer with higher precedence into this layer.
    fn overlay(&mut self, stronger: Self);

    /// Sets the built-in value of each setting that no layer sets.
    fn apply_builtin(&mut self, builtin: &Self);

    /// Adds one row to `out` for each value that is set.
    fn explain(&self, path: &str, out: &mut Vec<Explained>);
}

/// Reads all entries of a mapping. Reports unknown and duplicate keys, and two names of the same key.
pub(crate) fn read_mapping<M: Mapping>(target: &mut M, node: &Node, cx: &mut Context<'_>) -> bool {
    let Some(map) = node.as_map() else {
        let expected = format!("a mapping ({}) such as `{{key: value}}`", M::CALLED);
        cx.wrong_type(node, &expected);
        return false;
    };
    let mut seen: HashMap<&'static str, (&str, Span)> = HashMap::new();
    let mut meant = vec![];
    let mut last_own = 0;
    for entry in &map.entries {
        let span = cx.span(&entry.key);
        // Entries from a merge key (`<<`) come after the own entries of the mapping, but their text is at another
        // position of the file.
        let is_merged = entry.key.span.start < last_own || entry.key.span.end > node.span.end;
        if !is_merged {
            last_own = entry.key.span.start;
        }
        let Some(written) = entry.key.as_str() else {
            cx.wrong_type(&entry.key, "a word as the key");
            continue;
        };
        let Some(name) = M::canonical(written) else {
            if M::OWN_PREFIX.is_none_or(|prefix| !written.starts_with(prefix)) {
                meant.extend(unknown_key::<M>(written, span, &entry.value, cx));
            }
            continue;
        };
        if let Some((first, first_span)) = seen.get(name) {
            if is_merged {
                continue;
            }
            let diagnostic = if *first == written {
                Diagnostic::error(Code::DuplicateKey, format!("`{written}` is set twice"))
                    .hint("keep one of the two")
            } else {
                let message = format!("`{first}` and `{written}` are two names of one setting");
                Diagnostic::error(Code::AliasConflict, message)
                    .hint(format!("keep `{name}`, the name that the documentation uses"))
            };
            cx.report(diagnostic.at(span).related(*first_span, "first given here"));
            continue;
        }
        seen.insert(name, (written, span));
        target.read(name, Key { written, span }, &entry.value, cx);
    }
    // A misspelled key must not be reported as missing as well.
    for (name, span) in meant {
        if !seen.contains_key(name) {
            target.mark_key_invalid(name, span);
        }
    }
    true
}

/// Reports a key that the mapping does not have, with a suggestion. Returns the key that was probably meant.
fn unknown_key<M: Mapping>(
    written: &str,
    span: Span,
    value: &Node,
    cx: &mut Context<'_>,
) -> Option<(&'static str, Span)> {
    if cx.findings.is_full() {
        cx.findings.count_one();
        return None;
    }
    let mut keys = vec![];
    M::keys(&mut keys);
    let canonical = keys.len();
    M::aliases(&mut keys);
    let message = format!("unknown key `{}` in {}", excerpt(written), M::CALLED);
    let diagnostic = Diagnostic::error(Code::UnknownKey, message).at(span);
    let near = closest(written, keys.iter().copied());
    let home = crate::inventory::place_of_key(written).filter(|home| home.mapping != M::TYPE);
    // The value of a misspelled `password` is probably a password, so it is hidden.
    if near.is_some_and(looks_secret) && crate::value::SecretRef::well_formed(value).is_none() {
        cx.hide(value);
    }
    let hint = match (near, home) {
        (_, Some(home)) => format!("`{written}` belongs {}", home.place),
        (Some(key), None) => format!("did you mean `{key}`?"),
        (None, None) if canonical <= 12 => {
            format!("known keys: {}", keys[..canonical].join(", "))
        }
        (None, None) => "`talmox schema` lists every key".to_owned(),
    };
    cx.report(diagnostic.hint(hint));
    near.filter(|_| home.is_none()).and_then(M::canonical).map(|name| (name, span))
}

/// Declares a mapping of the inventory: its keys with documentation, aliases and types.
///
/// - `..name` includes the keys of another mapping.
/// - `"alias" => field (Type).key` gives a key of a nested mapping a second name at this level.
/// - `either a or b` declares alternatives: a layer that sets one of them removes the other one from layers with lower
///   precedence.
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
            $(either $one:ident or $other:ident,)?
            $(requires $required:literal,)?
            $(own_prefix $own_prefix:literal,)?
        }
    ) => {
        $(#[doc = $doc])+
        #[derive(Clone, Debug, Default, PartialEq)]
        pub struct $name {
            /// Position of the mapping, in the layer with the highest precedence that contains it.
            pub span: Option<$crate::source::Span>,
            /// Set by an explicit `null`, which removes the values of layers with lower precedence.
            pub cleared: bool,
            $($(#[doc = $field_doc])+ pub $field: $type,)*
            $(pub $flat: $flat_type,)*
        }

        impl $crate::language::Mapping for $name {
            const TYPE: &'static str = stringify!($name);
            const DOC: &'static str = concat!($($doc, "\n",)+).trim_ascii();
            const CALLED: &'static str = $called;
            const REQUIRED: &'static [&'static str] = &[$($required)?];
            const OWN_PREFIX: Option<&'static str> = {
                let prefixes: &[&'static str] = &[$($own_prefix)?];
                if prefixes.is_empty() { None } else { Some(prefixes[0]) }
            };

            fn canonical(key: &str) -> Option<&'static str> {
                match key {
                    $(stringify!($field) $($(| $alias)+)? => Some(stringify!($field)),)*
                    $($nested_alias => Some($nested_alias),)*
                    _ => None $(.or_else(|| <$flat_type>::canonical(key)))*,
                }
            }

            fn keys(out: &mut Vec<&'static str>) {
                $(out.push(stringify!($field));)*
                $(<$flat_type>::keys(out);)*
            }

            fn aliases(out: &mut Vec<&'static str>) {
                let own: &[&'static str] = &[$($($($alias,)+)?)* $($nested_alias,)*];
                out.extend(own);
                $(<$flat_type>::aliases(out);)*
            }

            fn mark_key_invalid(&mut self, name: &str, span: $crate::source::Span) {
                match name {
                    $(stringify!($field) => {
                        $crate::language::Slot::mark_invalid(&mut self.$field, span);
                    })*
                    $($nested_alias => self.$outer.mark_key_invalid(stringify!($inner), span),)*
                    _ => { $(self.$flat.mark_key_invalid(name, span);)* }
                }
            }

            fn mark_invalid(&mut self, span: $crate::source::Span) {
                $($crate::language::Slot::mark_invalid(&mut self.$field, span);)*
                $($crate::language::Mapping::mark_invalid(&mut self.$flat, span);)*
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
                        .expect("invariant: an alias of a nested key refers to a key that exists");
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
                $(match (stronger.$one.span().is_some(), stronger.$other.span().is_some()) {
                    (true, false) => self.$other = Default::default(),
                    (false, true) => self.$one = Default::default(),
                    _ => {}
                })?
                $($crate::language::Slot::overlay(&mut self.$field, stronger.$field);)*
                $($crate::language::Mapping::overlay(&mut self.$flat, stronger.$flat);)*
            }

            fn apply_builtin(&mut self, builtin: &Self) {
                $($crate::language::Slot::apply_builtin(&mut self.$field, &builtin.$field);)*
                $($crate::language::Mapping::apply_builtin(&mut self.$flat, &builtin.$flat);)*
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

        // A mapping can be the value of a key.
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
                } else if !$crate::language::read_mapping(self, value, cx) {
                    $crate::language::Mapping::mark_invalid(self, key.span);
                }
            }

            fn mark_invalid(&mut self, span: $crate::source::Span) {
                $crate::language::Mapping::mark_invalid(self, span);
            }

            fn overlay(&mut self, stronger: Self) {
                $crate::language::Mapping::overlay(self, stronger);
            }

            fn apply_builtin(&mut self, builtin: &Self) {
                $crate::language::Mapping::apply_builtin(self, builtin);
            }

            fn schema(schemas: &mut $crate::language::Schemas) -> serde_json::Value {
                schemas.mapping::<Self>()
            }

            fn explain(&self, path: &str, out: &mut Vec<$crate::language::Explained>) {
                $crate::language::Mapping::explain(self, path, out);
            }
        }

        // A mapping can be an item of a list.
        impl $crate::language::Element for $name {
            // Kubernetes supports up to 5000 nodes.
            const MOST: usize = 5000;

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
