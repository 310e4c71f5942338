//! Decoding of a YAML tree to a canonical tree of a known type. The decoder is as strict as Talos.
//!
//! In a canonical tree, a struct contains only the keys that are set in Go, in the order of the schema table. A value
//! is not set if it is the zero value of its type. A pointer, list or map is not set if it is nil. Scalars have their
//! canonical form. Encoding, merging and deleting rely on this.

use std::borrow::Cow;

use talmox_yaml::{
    Entry, Map, Node, Resolved, Scalar, Seq, Style, Value, emit, key_order, timestamp,
};

use crate::any;
use crate::format::{self, Mismatch, text};
use crate::schema::{Field, Format, ListMerge, Release, Struct, Type};

/// Line numbers of a text.
#[derive(Debug)]
pub(crate) struct Lines(Vec<usize>);

impl Lines {
    pub(crate) fn of(text: &str) -> Self {
        Self(text.match_indices('\n').map(|(at, _)| at).collect())
    }

    pub(crate) fn line(&self, node: &Node) -> usize {
        1 + self.0.partition_point(|at| *at < node.span.start)
    }
}

/// Decodes a document. The error has the text that Talos prints.
pub(crate) fn decode(
    node: &Node,
    record: &'static Struct,
    lines: &Lines,
    release: Release,
) -> Result<Node, String> {
    let mut decoder = Decoder { lines, release, errors: vec![] };
    let decoded = decoder.record(node, record);
    if !decoder.errors.is_empty() {
        return Err(format!("yaml: {} errors:\n  {}", decoder.verb(), decoder.errors.join("\n  ")));
    }
    Ok(decoded.unwrap_or_else(|| Node::from(Value::Map(Map::default()))))
}

/// Reports keys that the record does not have, at any depth.
pub(crate) fn check_unknown_keys(
    node: &Node,
    record: &'static Struct,
    release: Release,
) -> Result<(), String> {
    match unknown_in_record(node, record, release) {
        None => Ok(()),
        Some(unknown) => Err(format!("unknown keys found during decoding:\n{}", emit(&unknown, 4))),
    }
}

struct Decoder<'a> {
    lines: &'a Lines,
    release: Release,
    errors: Vec<String>,
}

impl Decoder<'_> {
    /// Canonical form of a value; `None` if Go's decoder would not change the target. A nil pointer, list or map is
    /// returned as null.
    fn value(&mut self, node: &Node, ty: &'static Type) -> Option<Node> {
        match ty {
            Type::Pointer(_) | Type::List(..) | Type::Map(_) | Type::Args if node.is_null() => {
                Some(any::null())
            }
            _ if node.is_null() => None,
            Type::Scalar(format) => self.scalar(node, *format),
            Type::Pointer(inner) => self.value(node, inner),
            Type::List(inner, merge) => self.list(node, inner, *merge, ty),
            Type::Map(inner) => {
                self.map(node, ty, |decoder, value| decoder.map_value(value, inner))
            }
            Type::Args if self.release < Release::V1_13 => self.map(node, ty, |decoder, value| {
                decoder.map_value(value, &Type::Scalar(Format::Text))
            }),
            Type::Args => self.map(node, ty, Self::argument),
            Type::Struct(record) => self.record(node, record),
            Type::Any => self.anything(node, ty),
        }
    }

    fn scalar(&mut self, node: &Node, format: Format) -> Option<Node> {
        let Some(scalar) = node.as_scalar() else {
            if self.release < Release::V1_13 {
                if is_empty_struct(node, format) {
                    return Some(format::zero(format));
                }
                if let (Format::Mac, Some(bytes)) = (format, bytes_of(node)) {
                    return Some(text(bytes));
                }
            }
            self.mismatch(node, &format::go_name(format));
            return None;
        };
        match format::read(format, scalar, self.release) {
            Ok(_) if matches!(format, Format::Text) && node.tag.is_some() => Some(node.clone()),
            Ok(node) => Some(node),
            Err(Mismatch::Type) => {
                self.mismatch(node, &format::go_name(format));
                None
            }
            Err(Mismatch::Value(reason)) => {
                self.error(node, &reason);
                None
            }
        }
    }

    fn list(
        &mut self,
        node: &Node,
        inner: &'static Type,
        merge: ListMerge,
        ty: &'static Type,
    ) -> Option<Node> {
        let Some(seq) = node.as_seq() else {
            self.mismatch(node, &go_type(ty, self.release));
            return None;
        };
        let mut items: Vec<Node> =
            seq.items.iter().filter_map(|item| self.value(item, inner)).collect();
        if merge == ListMerge::Manifests {
            items.iter_mut().for_each(trim_manifest);
        }
        Some(Node::from(Value::Seq(Seq { items, flow: false })))
    }

    fn map(
        &mut self,
        node: &Node,
        ty: &'static Type,
        read: impl Fn(&mut Self, &Node) -> Option<Node>,
    ) -> Option<Node> {
        let Some(map) = node.as_map() else {
            self.mismatch(node, &go_type(ty, self.release));
            return None;
        };
        let map = self.merged(map)?;
        let mut entries = vec![];
        for entry in &map.entries {
            let Some(key) = self.key(&entry.key) else {
                continue;
            };
            if let Some(value) = read(self, &entry.value) {
                entries.push(Entry { key: text(key), value });
            }
        }
        any::sort_by_key(&mut entries);
        Some(Node::from(Value::Map(Map { entries, flow: false })))
    }

    /// Entries of a mapping, including those of its merge keys. Duplicate keys are an error.
    fn merged<'m>(&mut self, map: &'m Map) -> Option<Cow<'m, Map>> {
        if !self.keys_are_unique(map) {
            return None;
        }
        let merged = map.merged();
        if let Err(error) = &merged {
            self.errors.push(error.to_string());
        }
        merged.ok()
    }

    /// Text of a key. A null key is skipped, as in Go.
    fn key(&mut self, key: &Node) -> Option<String> {
        if key.is_null() {
            return None;
        }
        if let Some(key) = key.as_str() {
            Some(key.to_owned())
        } else {
            self.mismatch(key, "string");
            None
        }
    }

    fn map_value(&mut self, node: &Node, inner: &'static Type) -> Option<Node> {
        match (self.value(node, inner), inner) {
            (Some(value), _) => Some(value),
            (None, Type::Scalar(format)) if node.is_null() => Some(format::zero(*format)),
            (None, _) => None,
        }
    }

    /// Value of a command line argument: a text, a list of texts, or null.
    fn argument(&mut self, node: &Node) -> Option<Node> {
        if node.is_null() {
            return Some(any::null());
        }
        let argument = |node: &Node| {
            let mut value = Node::plain(node.as_str().unwrap_or_default());
            value.tag = Some(talmox_yaml::STRING_TAG.to_owned());
            value
        };
        match &node.value {
            Value::Scalar(scalar) if scalar.text.is_empty() => Some(any::null()),
            Value::Scalar(_) => Some(argument(node)),
            Value::Seq(seq) if seq.items.iter().all(|item| item.as_scalar().is_some()) => {
                let given = seq.items.iter().filter(|item| !item.is_null());
                Some(Node::from(Value::Seq(Seq {
                    items: given.map(argument).collect(),
                    flow: false,
                })))
            }
            _ => {
                self.error(node, "arg value must be a string or list of strings");
                None
            }
        }
    }

    fn record(&mut self, node: &Node, record: &'static Struct) -> Option<Node> {
        let Some(map) = node.as_map() else {
            self.mismatch(node, record.name);
            return None;
        };
        if !self.keys_are_unique(map) {
            return None;
        }
        for entry in &map.entries {
            if entry.key.as_scalar().is_none() {
                self.mismatch(&entry.key, "string");
            }
        }
        let mut entries = vec![];
        for field in record.fields(self.release) {
            let value = map
                .get(field.key)
                .and_then(|value| self.value(value, &field.ty))
                .filter(|value| is_set(value, field))
                .or_else(|| record.complete.then(|| text("")));
            if let Some(value) = value {
                entries.push(Entry { key: text(field.key), value });
            }
        }
        for Entry { key, value } in record.others(map, self.release) {
            let value = self.generic(value)?.without_comments();
            entries.push(Entry { key: key.without_comments(), value });
        }
        Some(Node::from(Value::Map(Map { entries, flow: false })))
    }

    fn anything(&mut self, node: &Node, ty: &'static Type) -> Option<Node> {
        let Some(map) = node.as_map() else {
            self.mismatch(node, &go_type(ty, self.release));
            return None;
        };
        let map = self.merged(map)?;
        let mut entries = vec![];
        for entry in &map.entries {
            if let (Some(key), Some(value)) = (self.key(&entry.key), self.generic(&entry.value)) {
                entries.push(Entry { key: text(key), value: any::canonical(&value) });
            }
        }
        any::sort_by_key(&mut entries);
        Some(Node::from(Value::Map(Map { entries, flow: false })))
    }

    /// Generic value with its merge keys applied; `None` if a key is invalid.
    fn generic(&mut self, node: &Node) -> Option<Node> {
        let value = match &node.value {
            Value::Scalar(_) => return Some(node.clone()),
            Value::Seq(seq) => {
                let items = seq.items.iter().map(|item| self.generic(item));
                Value::Seq(Seq { items: items.collect::<Option<_>>()?, flow: false })
            }
            Value::Map(map) => {
                let map = self.merged(map)?;
                let mut entries = vec![];
                for Entry { key, value } in &map.entries {
                    if key.as_scalar().is_none() {
                        self.error(key, "cannot use a collection as a map key");
                        return None;
                    }
                    entries.push(Entry { key: key.clone(), value: self.generic(value)? });
                }
                Value::Map(Map { entries, flow: false })
            }
        };
        Some(Node { value, ..node.clone() })
    }

    fn keys_are_unique(&mut self, map: &Map) -> bool {
        let before = self.errors.len();
        for (at, entry) in map.entries.iter().enumerate() {
            let Some(key) = entry.key.as_str() else {
                continue;
            };
            let mut later = map.entries[at + 1..].iter();
            if let Some(again) = later.find(|other| other.key.as_str() == Some(key)) {
                let first = self.lines.line(&entry.key);
                self.error(
                    &again.key,
                    &format!("mapping key {key:?} already defined at line {first}"),
                );
            }
        }
        self.errors.len() == before
    }

    fn mismatch(&mut self, node: &Node, go: &str) {
        let what = match &node.value {
            Value::Map(_) => "!!map".to_owned(),
            Value::Seq(_) => "!!seq".to_owned(),
            Value::Scalar(scalar) => {
                let shown: String = match scalar.text.char_indices().nth(10) {
                    Some(_) => scalar.text.chars().take(7).chain("...".chars()).collect(),
                    None => scalar.text.clone(),
                };
                format!("{} `{shown}`", go_tag(scalar))
            }
        };
        let verb = self.verb();
        self.error(node, &format!("cannot {verb} {what} into {go}"));
    }

    /// Verb that the YAML library of the release uses in its messages.
    fn verb(&self) -> &'static str {
        if self.release < Release::V1_13 { "unmarshal" } else { "construct" }
    }

    fn error(&mut self, node: &Node, reason: &str) {
        let line = self.lines.line(node);
        self.errors.push(format!("line {line}: {reason}"));
    }
}

fn go_tag(scalar: &Scalar) -> &'static str {
    match scalar.resolve() {
        Resolved::Null => "!!null",
        Resolved::Bool(_) => "!!bool",
        Resolved::Int(_) => "!!int",
        Resolved::Float(_) => "!!float",
        Resolved::Text if scalar.style == Style::Plain && timestamp(&scalar.text).is_some() => {
            "!!timestamp"
        }
        Resolved::Text => "!!str",
    }
}

/// Text of a MAC address that is written as a list of bytes. The YAML library before Talos 1.13 accepts this form.
fn bytes_of(node: &Node) -> Option<String> {
    let byte = |item: &Node| match item.as_scalar()?.resolve() {
        Resolved::Int(byte) => u8::try_from(byte).ok(),
        _ => None,
    };
    let bytes: Option<Vec<String>> = node
        .as_seq()?
        .items
        .iter()
        .map(|item| byte(item).map(|byte| format!("{byte:02x}")))
        .collect();
    bytes.map(|bytes| bytes.join(":"))
}

/// Whether the value is an empty mapping for a type that is a struct in Go. The YAML library before Talos 1.13 decodes
/// it to the zero value.
fn is_empty_struct(node: &Node, format: Format) -> bool {
    let is_struct = matches!(
        format,
        Format::Cel
            | Format::ByteSize
            | Format::Size
            | Format::Addr
            | Format::Prefix
            | Format::AddrPort
    );
    is_struct && node.as_map().is_some_and(|map| map.entries.is_empty())
}

/// Whether a decoded value counts as set in the struct that contains it.
fn is_set(value: &Node, field: &Field) -> bool {
    match &field.ty {
        Type::Scalar(format) => !format::is_zero(*format, value),
        Type::Struct(_) | Type::Any => value.as_map().is_some_and(|map| !map.entries.is_empty()),
        _ => !value.is_null(),
    }
}

fn trim_manifest(manifest: &mut Node) {
    let Value::Map(map) = &mut manifest.value else {
        return;
    };
    for entry in &mut map.entries {
        if entry.key.as_str() == Some("contents")
            && let Value::Scalar(scalar) = &mut entry.value.value
        {
            scalar.text =
                scalar.text.trim_start_matches(['\t', '\n', '\u{b}', '\u{c}', '\r']).to_owned();
        }
    }
}

/// Name of a type in Go. Messages contain it.
fn go_type(ty: &Type, release: Release) -> String {
    match ty {
        Type::Scalar(format) => format::go_name(*format),
        Type::Pointer(inner) => go_type(inner, release),
        Type::List(inner, _) => format!("[]{}", go_pointer(inner, release)),
        Type::Map(inner) => format!("map[string]{}", go_pointer(inner, release)),
        Type::Struct(record) => record.name.to_owned(),
        Type::Any => "v1alpha1.Unstructured".to_owned(),
        Type::Args if release < Release::V1_13 => "map[string]string".to_owned(),
        Type::Args => "v1alpha1.Args".to_owned(),
    }
}

fn go_pointer(ty: &Type, release: Release) -> String {
    match ty {
        Type::Pointer(inner) => format!("*{}", go_type(inner, release)),
        other => go_type(other, release),
    }
}

/// Parts of a value that the schema does not contain. Talos does not check the content of aliases.
fn unknown_in(node: &Node, ty: &'static Type, release: Release) -> Option<Node> {
    match ty {
        // The decoder skips the content of null keys and merge keys, so only this check finds wrong items in them.
        Type::Scalar(format) => has_wrong_items(node, *format).then(|| node.clone()),
        Type::Args if release < Release::V1_13 => unknown_entries(node, |key, value| {
            unknown_below(key, value, &Type::Scalar(Format::Text), release)
        }),
        Type::Args => unknown_entries(node, |key, value| {
            let is_written = value.as_map().is_some() && value.span.start > key.span.start;
            is_written.then(|| value.clone())
        }),
        Type::Any => None,
        Type::Pointer(inner) => unknown_in(node, inner, release),
        Type::Struct(record) => unknown_in_record(node, record, release),
        Type::List(inner, _) => {
            let seq = node.as_seq()?;
            // An alias is recognized by the position of its content, which is before the position of the alias.
            let mut reached = node.span.start;
            let mut items = vec![];
            for (at, item) in seq.items.iter().enumerate() {
                let start = item.span.start;
                if start > reached || (at == 0 && start == reached) {
                    reached = start;
                    items.extend(unknown_in(item, inner, release));
                }
            }
            (!items.is_empty()).then(|| Node::from(Value::Seq(Seq { items, flow: false })))
        }
        Type::Map(inner) => {
            unknown_entries(node, |key, value| unknown_below(key, value, inner, release))
        }
    }
}

fn unknown_in_record(node: &Node, record: &'static Struct, release: Release) -> Option<Node> {
    unknown_entries(node, |key, value| match record.field(key.as_str()?, release) {
        None if record.open => None,
        None => Some(value.clone()),
        Some(field) => unknown_below(key, value, &field.ty, release),
    })
}

/// Parts of the value of a key that the schema does not contain.
fn unknown_below(key: &Node, value: &Node, ty: &'static Type, release: Release) -> Option<Node> {
    // If the value is an alias, its position is before the key.
    if value.span.start < key.span.start { None } else { unknown_in(value, ty, release) }
}

fn has_wrong_items(node: &Node, format: Format) -> bool {
    match &node.value {
        Value::Scalar(_) => false,
        Value::Seq(_) => !matches!(format, Format::Mac),
        Value::Map(map) => !map.entries.is_empty(),
    }
}

fn unknown_entries(node: &Node, find: impl Fn(&Node, &Node) -> Option<Node>) -> Option<Node> {
    let map = node.as_map()?;
    let mut entries: Vec<Entry> = map
        .entries
        .iter()
        .filter_map(|entry| {
            let value = find(&entry.key, &entry.value)?;
            Some(Entry { key: entry.key.clone(), value })
        })
        .collect();
    entries.sort_by(|a, b| {
        key_order(a.key.as_str().unwrap_or_default(), b.key.as_str().unwrap_or_default())
    });
    (!entries.is_empty()).then(|| Node::from(Value::Map(Map { entries, flow: false })))
}
