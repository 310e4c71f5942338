//! Strategic merge of documents, by the type of each value.
//!
//! Talos merges Go structs by reflection. Some of its rules are surprising: for example, a size that the patch does not
//! contain is removed, and an empty text in a patch is ignored. This module reproduces all rules exactly.

use talmox_yaml::{Entry, Map, Node, Seq, Value};

use super::PatchError;
use crate::any::{self, GoType};
use crate::document::{Document, Item};
use crate::format::url::Url;
use crate::format::{self, text};
use crate::schema::{Field, Format, ListMerge, Release, Struct, Type};

pub(super) fn merge_documents(
    document: &mut Document,
    patch: &Document,
    release: Release,
) -> Result<(), String> {
    merge_record(&mut document.body, &patch.body, document.kind.record, release)
}

/// Checks that Talos can copy the config. Talos copies a config before it applies a patch, but cannot copy every
/// generic value.
pub(super) fn check_copyable(items: &[Item], release: Release) -> Result<(), PatchError> {
    let stuck = items.iter().any(|item| match item {
        Item::Document(document) => has_time(&document.body, document.kind.record, release),
        Item::Deletion(_) => false,
    });
    if stuck {
        return Err(PatchError::Merge("cannot deep copy time.Time".to_owned()));
    }
    Ok(())
}

fn has_time(node: &Node, record: &'static Struct, release: Release) -> bool {
    fn in_value(node: &Node, ty: &'static Type, release: Release) -> bool {
        match (ty, &node.value) {
            (Type::Any, _) => in_any(node),
            (Type::Struct(record), _) => has_time(node, record, release),
            (Type::Pointer(inner), _) => in_value(node, inner, release),
            (Type::List(inner, _), Value::Seq(seq)) => {
                seq.items.iter().any(|item| in_value(item, inner, release))
            }
            (Type::Map(inner), Value::Map(map)) => {
                map.entries.iter().any(|entry| in_value(&entry.value, inner, release))
            }
            _ => false,
        }
    }
    fn in_any(node: &Node) -> bool {
        match &node.value {
            Value::Scalar(_) => GoType::of(node) == GoType::Time,
            Value::Seq(seq) => seq.items.iter().any(in_any),
            Value::Map(map) => map.entries.iter().any(|entry| in_any(&entry.value)),
        }
    }
    let map = node.as_map();
    record.fields(release).filter(|field| !field.shared).any(|field| {
        let value = map.and_then(|map| map.get(field.key));
        value.is_some_and(|value| in_value(value, &field.ty, release))
    })
}

fn merge_record(
    left: &mut Node,
    right: &Node,
    record: &'static Struct,
    release: Release,
) -> Result<(), String> {
    let mut old = take_entries(left);
    let new = right.as_map();
    let mut entries = vec![];
    for field in record.fields(release) {
        let at = old.iter().position(|e| e.key.as_str() == Some(field.key));
        let before = at.map(|at| old.swap_remove(at).value);
        let patch = new.and_then(|map| map.get(field.key));
        let merged = merge_field(before, patch, field, release)
            .map_err(|reason| format!("merge field {}.{}: {reason}", record.name, field.key))?;
        if let Some(value) = merged {
            entries.push(Entry { key: text(field.key), value });
        }
    }
    if record.open {
        let map = |entries| Node::from(Value::Map(Map { entries, flow: false }));
        let mut others = map(old);
        let patch = new.into_iter().flat_map(|map| record.others(map, release));
        merge_maps(&mut others, &map(patch.cloned().collect()), merge_any)?;
        entries.extend(take_entries(&mut others));
    }
    left.value = Value::Map(Map { entries, flow: false });
    Ok(())
}

fn merge_field(
    left: Option<Node>,
    right: Option<&Node>,
    field: &'static Field,
    release: Release,
) -> Result<Option<Node>, String> {
    if field.replaced {
        return Ok(right.cloned().or(left));
    }
    match &field.ty {
        Type::Scalar(format) => merge_scalar(left, right, *format),
        Type::Struct(record) => {
            let empty = Node::from(Value::Map(Map::default()));
            let mut merged = left.unwrap_or_else(|| empty.clone());
            merge_record(&mut merged, right.unwrap_or(&empty), record, release)?;
            let is_set = merged.as_map().is_some_and(|map| !map.entries.is_empty());
            Ok(is_set.then_some(merged))
        }
        ty => match (left, right) {
            (left, None) => Ok(left),
            (None, Some(right)) => merge_into_nothing(right, ty, release),
            (Some(mut left), Some(right)) => {
                merge_value(&mut left, right, ty, release)?;
                Ok(Some(left))
            }
        },
    }
}

/// Merges a patch value into a value that is not set. An empty list that is merged by key stays unset. The items of
/// such a list are merged with each other.
fn merge_into_nothing(
    right: &Node,
    ty: &'static Type,
    release: Release,
) -> Result<Option<Node>, String> {
    let is_empty = match &right.value {
        Value::Seq(seq) => seq.items.is_empty(),
        Value::Map(map) => map.entries.is_empty(),
        Value::Scalar(_) => false,
    };
    match ty {
        Type::List(_, ListMerge::Append | ListMerge::Manifests) => Ok(Some(right.clone())),
        Type::List(..) if is_empty => Ok(None),
        Type::List(..) => {
            let mut list = Node::from(Value::Seq(Seq::default()));
            merge_value(&mut list, right, ty, release)?;
            Ok(Some(list))
        }
        Type::Args if is_empty && release >= Release::V1_13 => Ok(None),
        _ => Ok(Some(right.clone())),
    }
}

/// Merges a scalar. `right` is the value of the patch.
fn merge_scalar(
    left: Option<Node>,
    right: Option<&Node>,
    format: Format,
) -> Result<Option<Node>, String> {
    match format {
        // The value of the patch always replaces these formats, even if the patch has no value.
        Format::Cel | Format::ByteSize | Format::Bool => Ok(right.cloned()),
        Format::Addr | Format::Prefix | Format::AddrPort => {
            Err("merge not possible, left is not settable".to_owned())
        }
        Format::Size => Ok(match (left, right) {
            (left, None) => left,
            (None, right) => right.cloned(),
            // Talos then stores both values and writes the bytes.
            (Some(left), Some(right)) if is_percentage(right) && !is_percentage(&left) => {
                Some(left)
            }
            (_, Some(right)) => Some(right.clone()),
        }),
        Format::Url => match (left, right) {
            (Some(mut left), Some(right)) => {
                merge_urls(&mut left, right)?;
                Ok(Some(left))
            }
            (left, right) => Ok(right.cloned().or(left)),
        },
        _ => Ok(right.cloned().or(left)),
    }
}

fn is_percentage(node: &Node) -> bool {
    node.as_str().is_some_and(|text| text.contains('%'))
}

fn merge_urls(left: &mut Node, right: &Node) -> Result<(), String> {
    let parse = |node: &Node| Url::parse(node.as_str().unwrap_or_default());
    let mut url = parse(left)?;
    url.merge(&parse(right)?)?;
    *left = text(url.to_string());
    Ok(())
}

/// Merges two values that are both set. `right` is the value of the patch.
fn merge_value(
    left: &mut Node,
    right: &Node,
    ty: &'static Type,
    release: Release,
) -> Result<(), String> {
    match ty {
        _ if right.is_null() => Ok(()),
        _ if left.is_null() => {
            left.clone_from(right);
            Ok(())
        }
        Type::Pointer(Type::Struct(record)) | Type::Struct(record) => {
            merge_record(left, right, record, release)
        }
        Type::Pointer(Type::Scalar(Format::Endpoint)) => merge_urls(left, right),
        Type::Pointer(Type::Scalar(Format::SizeCondition)) => {
            Err("merge not possible, left is not settable".to_owned())
        }
        Type::Pointer(_) => {
            left.clone_from(right);
            Ok(())
        }
        Type::Scalar(format) => {
            if !format::is_zero(*format, right) || matches!(format, Format::Bool) {
                left.clone_from(right);
            }
            Ok(())
        }
        Type::List(inner, rule) => merge_lists(left, right, inner, *rule, release),
        Type::Map(inner) => {
            merge_maps(left, right, |left, right| merge_value(left, right, inner, release))
        }
        Type::Args if release < Release::V1_13 => merge_maps(left, right, |left, right| {
            if right.as_str() != Some("") {
                left.clone_from(right);
            }
            Ok(())
        }),
        Type::Args => merge_maps(left, right, |left, right| {
            left.clone_from(right);
            Ok(())
        }),
        Type::Any => merge_maps(left, right, merge_any),
    }
}

fn merge_maps(
    left: &mut Node,
    right: &Node,
    merge: impl Fn(&mut Node, &Node) -> Result<(), String>,
) -> Result<(), String> {
    let mut entries = take_entries(left);
    for patch in right.as_map().into_iter().flat_map(|map| &map.entries) {
        let key = patch.key.as_str();
        match entries.iter_mut().find(|entry| entry.key.as_str() == key) {
            Some(entry) if !entry.value.is_null() => merge(&mut entry.value, &patch.value)
                .map_err(|reason| {
                    format!("merge map key [{}]: {reason}", key.unwrap_or_default())
                })?,
            Some(entry) => entry.value = patch.value.clone(),
            None => entries.push(patch.clone()),
        }
    }
    any::sort_by_key(&mut entries);
    left.value = Value::Map(Map { entries, flow: false });
    Ok(())
}

fn merge_any(left: &mut Node, right: &Node) -> Result<(), String> {
    let (old, new) = (GoType::of(left), GoType::of(right));
    if old != new {
        return Err(format!("merge type mismatch left {} right {}", old.name(), new.name()));
    }
    match new {
        GoType::Map => merge_maps(left, right, merge_any),
        GoType::List => {
            append(left, right);
            Ok(())
        }
        GoType::Time => Err("merge not possible, left is not settable".to_owned()),
        GoType::Text if right.as_str() == Some("") => Ok(()),
        GoType::Int | GoType::Float if matches!(right.as_str(), Some("0" | "-0")) => Ok(()),
        _ => {
            left.clone_from(right);
            Ok(())
        }
    }
}

fn append(left: &mut Node, right: &Node) {
    if let (Value::Seq(list), Some(more)) = (&mut left.value, right.as_seq()) {
        list.items.extend(more.items.iter().cloned());
    }
}

fn merge_lists(
    left: &mut Node,
    right: &Node,
    inner: &'static Type,
    rule: ListMerge,
    release: Release,
) -> Result<(), String> {
    let Value::Seq(list) = &mut left.value else {
        return Ok(());
    };
    let known = list.items.len();
    for item in right.as_seq().into_iter().flat_map(|seq| &seq.items) {
        let at = match rule {
            ListMerge::Append | ListMerge::Manifests => None,
            _ if item.is_null() => {
                return Err("merge not possible, a list item is null".to_owned());
            }
            ListMerge::ByKey(key) => list.items.iter().position(|old| same(old, item, key)),
            // Only items that existed before the patch are replaced. If several of them have the same key, the last one
            // is replaced.
            ListMerge::ReplaceByKey(key) => {
                list.items[..known].iter().rposition(|old| same(old, item, key))
            }
            ListMerge::ByInterface => find_interface(&list.items, item),
        };
        match (at, rule) {
            (None, _) => list.items.push(item.clone()),
            (Some(at), ListMerge::ReplaceByKey(_)) => list.items[at] = item.clone(),
            (Some(at), _) => merge_value(&mut list.items[at], item, inner, release)?,
        }
    }
    Ok(())
}

fn same(old: &Node, new: &Node, key: &str) -> bool {
    let value = |node: &Node| {
        let value = node.as_map().and_then(|map| map.get(key));
        value.and_then(Node::as_str).map(str::to_owned)
    };
    value(old) == value(new)
}

/// Existing interface with the same name. If the new interface has no name: the first existing interface with the same
/// selector. Selectors with `physical` are never equal, because Go compares pointers.
fn find_interface(interfaces: &[Node], new: &Node) -> Option<usize> {
    fn get<'a>(node: &'a Node, key: &str) -> Option<&'a Node> {
        node.as_map().and_then(|map| map.get(key))
    }
    if let Some(name) = get(new, "interface") {
        return interfaces
            .iter()
            .position(|old| get(old, "interface").and_then(Node::as_str) == name.as_str());
    }
    let selector = get(new, "deviceSelector")?;
    if get(selector, "physical").is_some() {
        return None;
    }
    interfaces.iter().position(|old| get(old, "deviceSelector") == Some(selector))
}

fn take_entries(node: &mut Node) -> Vec<Entry> {
    match &mut node.value {
        Value::Map(map) => std::mem::take(&mut map.entries),
        _ => vec![],
    }
}
