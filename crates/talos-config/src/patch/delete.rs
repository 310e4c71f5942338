//! `$patch: delete`: extracting deletions from a patch, and applying them.

use talmox_yaml::{Entry, Node, Seq, Value};

use crate::document::Document;
use crate::schema::{CONFIG_KIND, Format, Release, Struct, Type};

const LOOKUP_FAILED: &str = "lookup failed";

/// One `$patch: delete`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Deletion {
    /// Keys from the root of the document. A list item is `[n]`.
    path: Vec<String>,
    api_version: String,
    kind: String,
    name: String,
    /// First key of a list item and its value. They select the item.
    selector: Option<(String, String)>,
}

impl Deletion {
    pub(crate) fn id(&self) -> String {
        let mut id = format!("{}/{}", self.api_version, self.kind);
        if !self.name.is_empty() {
            id.push('/');
            id.push_str(&self.name);
        }
        id
    }

    pub(crate) fn has_name(&self) -> bool {
        !self.name.is_empty()
    }

    pub(crate) fn is_whole_document(&self) -> bool {
        self.path.is_empty()
    }

    /// Applies the deletion. Returns true if the whole document is deleted.
    pub(crate) fn apply(&self, document: &mut Document, release: Release) -> Result<bool, String> {
        if self.path.is_empty() {
            return Ok(true);
        }
        let path: Vec<&str> = self.path.iter().map(String::as_str).collect();
        self.delete_in_record(&mut document.body, document.kind.record, &path, release)
            .map_err(|reason| self.describe(&reason))?;
        Ok(false)
    }

    fn describe(&self, reason: &str) -> String {
        let (path, id) = (self.path.join("."), format!("{}/{}", self.api_version, self.kind));
        let reason = format!("failed to delete path '{path}': {reason}");
        if self.name.is_empty() {
            format!("patch delete: path '{path}' in document '{id}': {reason}")
        } else {
            format!("named patch delete: document {id}: {reason}")
        }
    }

    fn delete_in_record(
        &self,
        node: &mut Node,
        record: &'static Struct,
        path: &[&str],
        release: Release,
    ) -> Result<(), String> {
        let [key, rest @ ..] = path else {
            return Err("path is empty".to_owned());
        };
        if record.open && record.field(key, release).is_none() {
            return delete_in_any(node, path);
        }
        let field = named_field(record, key, release).ok_or(LOOKUP_FAILED)?;
        let entries = entries_of(node).ok_or(LOOKUP_FAILED)?;
        let at = entries.iter().position(|e| e.key.as_str() == Some(key));
        match (at, rest) {
            (Some(at), []) => {
                entries.remove(at);
                Ok(())
            }
            // Deleting a field that is not set succeeds.
            (None, []) => Ok(()),
            (Some(at), rest) => self.delete_in(&mut entries[at].value, &field.ty, rest, release),
            (None, rest) => delete_in_nothing(&field.ty, rest, release),
        }
    }

    fn delete_in(
        &self,
        node: &mut Node,
        ty: &'static Type,
        path: &[&str],
        release: Release,
    ) -> Result<(), String> {
        match ty {
            Type::Pointer(inner) => self.delete_in(node, inner, path, release),
            Type::Struct(record) => self.delete_in_record(node, record, path, release),
            Type::Map(inner) => {
                delete_in_map(node, path, |value, rest| self.delete_in(value, inner, rest, release))
            }
            Type::Args => delete_in_map(node, path, |_, _| Err(LOOKUP_FAILED.to_owned())),
            Type::Any => delete_in_any(node, path),
            Type::List(inner, _) => self.delete_item(node, inner, path, release),
            Type::Scalar(_) => Err(LOOKUP_FAILED.to_owned()),
        }
    }

    fn delete_item(
        &self,
        node: &mut Node,
        inner: &'static Type,
        path: &[&str],
        release: Release,
    ) -> Result<(), String> {
        if path.len() > 1 {
            return Err(COMPLEX_PATH.to_owned());
        }
        if !path.first().is_some_and(|step| step.starts_with('[')) {
            return Err("searching for non-integer keys in slices is not supported".to_owned());
        }
        let Some((key, value)) = &self.selector else {
            return Err(LOOKUP_FAILED.to_owned());
        };
        let (Type::Struct(record) | Type::Pointer(Type::Struct(record))) = inner else {
            return Err(LOOKUP_FAILED.to_owned());
        };
        let field = named_field(record, key, release).ok_or(LOOKUP_FAILED)?;
        let Value::Seq(Seq { items, .. }) = &mut node.value else {
            return Err(LOOKUP_FAILED.to_owned());
        };
        let at = items
            .iter()
            .position(|item| {
                let field_value = item.as_map().and_then(|map| map.get(key));
                !item.is_null() && go_string(field_value, &field.ty).as_deref() == Some(value)
            })
            .ok_or(LOOKUP_FAILED)?;
        items.remove(at);
        Ok(())
    }
}

const COMPLEX_PATH: &str = "searching for complex paths in slices is not supported";

/// Deletes a key inside a value that is not set. For a struct by value this succeeds, because Go always has its fields.
fn delete_in_nothing(ty: &'static Type, path: &[&str], release: Release) -> Result<(), String> {
    let (Type::Struct(record), [key, rest @ ..]) = (ty, path) else {
        return Err(LOOKUP_FAILED.to_owned());
    };
    let field = named_field(record, key, release).ok_or(LOOKUP_FAILED)?;
    if rest.is_empty() { Ok(()) } else { delete_in_nothing(&field.ty, rest, release) }
}

fn delete_in_map(
    node: &mut Node,
    path: &[&str],
    inside: impl FnOnce(&mut Node, &[&str]) -> Result<(), String>,
) -> Result<(), String> {
    let [key, rest @ ..] = path else {
        return Err("path is empty".to_owned());
    };
    let entries = entries_of(node).ok_or(LOOKUP_FAILED)?;
    let at =
        entries.iter().position(|entry| entry.key.as_str() == Some(key)).ok_or(LOOKUP_FAILED)?;
    if rest.is_empty() {
        entries.remove(at);
        return Ok(());
    }
    inside(&mut entries[at].value, rest)
}

fn delete_in_any(node: &mut Node, path: &[&str]) -> Result<(), String> {
    match &node.value {
        Value::Map(_) => delete_in_map(node, path, delete_in_any),
        Value::Seq(_) if path.len() > 1 => Err(COMPLEX_PATH.to_owned()),
        _ => Err(LOOKUP_FAILED.to_owned()),
    }
}

/// Field with this key, if a deletion can address it. Talos cannot address the parts of certificates and keys, because
/// these fields have no YAML names in its Go code.
fn named_field(
    record: &'static Struct,
    key: &str,
    release: Release,
) -> Option<&'static crate::schema::Field> {
    record.field(key, release).filter(|_| !record.complete)
}

fn entries_of(node: &mut Node) -> Option<&mut Vec<Entry>> {
    match &mut node.value {
        Value::Map(map) => Some(&mut map.entries),
        _ => None,
    }
}

/// Text that Go's `String` method returns for a value; `None` for types without this method (numbers, booleans, lists).
fn go_string(value: Option<&Node>, ty: &Type) -> Option<String> {
    let text = value.and_then(Node::as_str);
    match ty {
        Type::Pointer(inner) => value.and_then(|value| go_string(Some(value), inner)),
        Type::Scalar(format) => match format {
            Format::Bool
            | Format::Int { .. }
            | Format::DiskSize
            | Format::ByteSize
            | Format::Size
            | Format::SizeCondition
            | Format::Base64
            | Format::Secret => None,
            Format::Addr if text.is_none() => Some("invalid IP".to_owned()),
            Format::Prefix if text.is_none() => Some("invalid Prefix".to_owned()),
            Format::AddrPort if text.is_none() => Some("invalid AddrPort".to_owned()),
            Format::PortRange => text.map(|port| {
                if port.contains('-') { port.to_owned() } else { format!("{port}-{port}") }
            }),
            _ => match text {
                Some(text) => Some(text.to_owned()),
                None => crate::format::zero(*format).as_str().map(str::to_owned),
            },
        },
        _ => None,
    }
}

/// Extracts the deletions from a document of a patch. The second result is the rest of the document, which is merged.
pub(crate) fn extract(mut node: Node) -> Result<(Vec<Deletion>, Option<Node>), String> {
    let identity = DocumentIdentity::of(&node);
    let mut found = vec![];
    let gone = walk(&mut node, false, &mut vec![], &identity, &mut found)?;
    let left = (!gone && !is_empty_document(&node)).then_some(node);
    Ok((found, left))
}

/// Identity of the document that contains a deletion.
struct DocumentIdentity {
    is_map: bool,
    api_version: Option<String>,
    kind: Option<String>,
    name: String,
}

impl DocumentIdentity {
    fn of(node: &Node) -> Self {
        let value = |key: &str| {
            let value = node.as_map()?.get(key)?;
            Some(value.as_str().unwrap_or_default().to_owned())
        };
        Self {
            is_map: node.as_map().is_some(),
            api_version: value("apiVersion"),
            kind: value("kind"),
            name: value("name").unwrap_or_default(),
        }
    }

    fn deletion(
        &self,
        path: &[String],
        selector: Option<(String, String)>,
    ) -> Result<Deletion, String> {
        if !self.is_map {
            return Err("expected a mapping node".to_owned());
        }
        if path.is_empty() {
            for (key, value) in [("apiVersion", &self.api_version), ("kind", &self.kind)] {
                if value.is_none() {
                    return Err(format!(
                        "missing {key} in document for which $patch: delete is used"
                    ));
                }
            }
        }
        let api_version = self.api_version.clone().unwrap_or_default();
        let kind = self.kind.clone().unwrap_or_default();
        let kind = match (kind.is_empty(), api_version.is_empty()) {
            (true, true) => CONFIG_KIND.to_owned(),
            (false, false) => kind,
            _ => {
                return Err(format!(
                    "kind and apiVersion must be both set for path {}",
                    path.join(".")
                ));
            }
        };
        Ok(Deletion { path: path.to_vec(), api_version, kind, name: self.name.clone(), selector })
    }
}

/// Collects the deletions below a node. Returns true if the node itself is deleted.
fn walk(
    node: &mut Node,
    in_list: bool,
    path: &mut Vec<String>,
    identity: &DocumentIdentity,
    found: &mut Vec<Deletion>,
) -> Result<bool, String> {
    match &mut node.value {
        Value::Scalar(_) => Ok(false),
        Value::Map(map) => {
            let mut at = 0;
            while at < map.entries.len() {
                let entry = &mut map.entries[at];
                if is_delete(entry) {
                    let selector = if in_list {
                        Some(selector_of(&map.entries, path)?)
                    } else {
                        reject_below_lists(path)?;
                        None
                    };
                    found.push(identity.deletion(path, selector)?);
                    return Ok(true);
                }
                path.push(entry.key.as_str().unwrap_or_default().to_owned());
                let gone = walk(&mut entry.value, false, path, identity, found)?;
                path.pop();
                if gone {
                    map.entries.remove(at);
                    if map.entries.is_empty() {
                        return Ok(true);
                    }
                } else {
                    at += 1;
                }
            }
            Ok(false)
        }
        Value::Seq(seq) => {
            let mut at = 0;
            while at < seq.items.len() {
                path.push(format!("[{at}]"));
                let gone = walk(&mut seq.items[at], true, path, identity, found)?;
                path.pop();
                if gone {
                    seq.items.remove(at);
                    if seq.items.is_empty() {
                        return Ok(true);
                    }
                } else {
                    at += 1;
                }
            }
            Ok(false)
        }
    }
}

fn is_delete(entry: &Entry) -> bool {
    entry.key.as_str() == Some("$patch") && entry.value.as_str() == Some("delete")
}

fn selector_of(entries: &[Entry], path: &[String]) -> Result<(String, String), String> {
    let text = |node: &Node| node.as_str().unwrap_or_default().to_owned();
    entries
        .iter()
        .find(|entry| !is_delete(entry))
        .map(|entry| (text(&entry.key), text(&entry.value)))
        .ok_or_else(|| format!("no key:val found in sequence node for path {}", path.join(".")))
}

fn reject_below_lists(path: &[String]) -> Result<(), String> {
    if path.iter().any(|step| step.starts_with('[')) {
        return Err(format!("cannot delete an inner key in '{}'", path.join(".")));
    }
    Ok(())
}

/// Whether a document contains only its identity. As in Talos, `apiVersion` is not part of the identity here.
fn is_empty_document(node: &Node) -> bool {
    node.as_map().is_some_and(|map| {
        map.entries.iter().all(|entry| {
            entry.value.as_scalar().is_some()
                && matches!(entry.key.as_str(), Some("version" | "kind" | "name"))
        })
    })
}
