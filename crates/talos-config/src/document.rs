//! Machine config: documents in the order of Talos. Parsing is strict, and the output is canonical.
//!
//! This module checks only that documents are well formed and do not exclude each other. `validate` checks the content.

use talmox_yaml::{Map, Node, Value, emit_as};
use zeroize::Zeroizing;

use crate::decode::{self, Lines};
use crate::encode::encode_record;
use crate::patch::delete::{self, Deletion};
use crate::schema::{self, CONFIG_KIND, Kind, Release};
use crate::tags;

const API_VERSION: &str = "v1alpha1";

/// Reason why a text is not a machine config.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct DecodeError(pub(crate) String);

/// Machine config.
#[derive(Clone, Debug)]
pub struct Config {
    release: Release,
    pub(crate) entries: Vec<Item>,
}

/// Item of a config or a patch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Item {
    Document(Document),
    /// A `$patch: delete`. Talos keeps a deletion that found nothing to delete as an empty document.
    Deletion(Deletion),
}

impl Item {
    fn is_legacy(&self) -> bool {
        matches!(self, Self::Document(document) if document.kind.name == CONFIG_KIND)
    }

    /// ID of the item. Items of a patch and of a config with the same ID belong together.
    pub(crate) fn id(&self) -> String {
        match self {
            Self::Document(document) => document.id(),
            Self::Deletion(deletion) => deletion.id(),
        }
    }
}

/// Document of a known kind.
#[derive(Clone, Debug)]
pub struct Document {
    pub(crate) kind: &'static Kind,
    pub(crate) body: Node,
}

impl PartialEq for Document {
    fn eq(&self, other: &Self) -> bool {
        self.kind.name == other.kind.name && self.body == other.body
    }
}

impl Eq for Document {}

impl Document {
    /// Kind, such as `HostnameConfig` or `LinkConfig`. The document without a kind returns `v1alpha1`.
    pub fn kind(&self) -> &'static str {
        self.kind.name
    }

    /// Name of the document, for kinds that can have several documents.
    pub fn name(&self) -> Option<&str> {
        if self.kind.is_named() { Some(self.text("name")) } else { None }
    }

    /// Value at a path of keys, in canonical form; `None` if it is not set.
    pub fn get(&self, path: &[&str]) -> Option<&Node> {
        path.iter().try_fold(&self.body, |node, key| node.as_map()?.get(key))
    }

    /// Keys of the document that are set, in canonical form and output order.
    pub fn body(&self) -> &Node {
        &self.body
    }

    pub(crate) fn text(&self, key: &str) -> &str {
        self.get(&[key]).and_then(Node::as_str).unwrap_or_default()
    }

    fn id(&self) -> String {
        if self.kind.name == CONFIG_KIND {
            return format!("/{CONFIG_KIND}");
        }
        let mut id = format!("{}/{}", self.text("apiVersion"), self.text("kind"));
        if let Some(name) = self.name() {
            id.push('/');
            id.push_str(name);
        }
        id
    }
}

impl Config {
    /// Parses a config, as strictly as this release of Talos.
    pub fn parse(text: &str, release: Release) -> Result<Self, DecodeError> {
        parse(text, release, false)
    }

    pub(crate) fn parse_patch(text: &str, release: Release) -> Result<Self, DecodeError> {
        parse(text, release, true)
    }

    pub fn release(&self) -> Release {
        self.release
    }

    /// All documents. The v1alpha1 document is the first.
    pub fn documents(&self) -> impl Iterator<Item = &Document> {
        self.entries.iter().filter_map(|item| match item {
            Item::Document(document) => Some(document),
            Item::Deletion(_) => None,
        })
    }

    /// The v1alpha1 document.
    pub fn v1alpha1(&self) -> Option<&Document> {
        self.documents().find(|document| document.kind.name == CONFIG_KIND)
    }

    /// Canonical text without comments. It is indented by four spaces, and the keys are in the order of Talos.
    pub fn encode(&self) -> String {
        let documents = self.entries.iter().map(|item| match item {
            Item::Document(document) => {
                encode_record(&document.body, document.kind.record, self.release)
            }
            Item::Deletion(_) => Node::from(Value::Map(Map::default())),
        });
        // Each text may contain secret keys. The result has its full capacity from the start, because a buffer that
        // grows leaves copies in memory that are not overwritten.
        let texts: Vec<Zeroizing<String>> = documents
            .map(|document| Zeroizing::new(emit_as(&document, 4, self.release.go_yaml())))
            .collect();
        let mut all = String::with_capacity(texts.iter().map(|text| text.len() + 4).sum());
        for (nth, text) in texts.iter().enumerate() {
            if nth > 0 {
                all.push_str("---\n");
            }
            all.push_str(text);
        }
        all
    }

    /// Moves the v1alpha1 document to the front. Returns an error if documents exclude each other.
    pub(crate) fn collect(items: Vec<Item>, release: Release) -> Result<Self, DecodeError> {
        check_conflicts(&items)?;
        let (mut entries, rest): (Vec<_>, Vec<_>) = items.into_iter().partition(Item::is_legacy);
        if entries.len() > 1 {
            return Err(DecodeError("duplicate v1alpha1.Config".to_owned()));
        }
        entries.extend(rest);
        Ok(Self { release, entries })
    }

    /// Items in the order in which Talos applies a patch: deletions in the v1alpha1 document come first.
    pub(crate) fn in_patch_order(&self) -> Vec<Item> {
        let legacy = format!("/{CONFIG_KIND}");
        let is_first = |item: &Item| matches!(item, Item::Deletion(_)) && item.id() == legacy;
        let (mut items, rest): (Vec<_>, Vec<_>) = self.entries.iter().cloned().partition(is_first);
        items.extend(rest);
        items
    }
}

fn check_conflicts(items: &[Item]) -> Result<(), DecodeError> {
    let documents: Vec<&Document> = items
        .iter()
        .filter_map(|item| match item {
            Item::Document(document) if document.kind.name != CONFIG_KIND => Some(document),
            _ => None,
        })
        .collect();
    for (at, document) in documents.iter().enumerate() {
        let (kind, name) = (document.kind.name, document.name().unwrap_or_default());
        for earlier in &documents[..at] {
            if earlier.name().unwrap_or_default() != name {
                continue;
            }
            if earlier.kind.name == kind {
                return Err(DecodeError(format!("duplicate document: {kind}/{name}")));
            }
            if document.kind.conflicts.contains(&earlier.kind.name) {
                return Err(DecodeError(format!(
                    "conflicting documents: {}/{name} and {kind}/{name}",
                    earlier.kind.name
                )));
            }
        }
    }
    Ok(())
}

fn parse(text: &str, release: Release, allow_delete: bool) -> Result<Config, DecodeError> {
    let lines = Lines::of(text);
    let nodes = talmox_yaml::read_nodes(text).map_err(|error| {
        let line = 1 + text[..error.span.start.min(text.len())].matches('\n').count();
        DecodeError(format!("decode error: yaml: line {line}: {error}"))
    })?;
    let mut items = vec![];
    let mut known: Vec<[String; 3]> = vec![];
    for mut node in nodes {
        let line = lines.line(&node);
        if let Some(tab) = find_tab(&node, text) {
            let line = lines.line(tab);
            return Err(DecodeError(format!(
                "decode error: yaml: line {line}: found character that cannot start any token"
            )));
        }
        if allow_delete {
            let (deletions, left) = delete::extract(node).map_err(|reason| {
                DecodeError(format!(
                    "error processing patch delete statements at line {line}: {reason}"
                ))
            })?;
            items.extend(deletions.into_iter().map(Item::Deletion));
            match left {
                Some(left) => node = left,
                None => continue,
            }
        }
        if node.is_null() {
            continue;
        }
        let Some(map) = node.as_map() else {
            return Err(DecodeError(format!("expected a YAML document at line {line}")));
        };
        let [api_version, kind, name] = identity(map);
        let id = [api_version, kind, name];
        let shown = id.join("/");
        if known.contains(&id) {
            return Err(DecodeError(format!(
                "duplicate document {shown} is not allowed (line {line})"
            )));
        }
        known.push(id);
        let document = decode_document(node, &lines, release).map_err(|reason| {
            DecodeError(format!("error decoding document {shown} (line {line}): {reason}"))
        })?;
        items.push(Item::Document(document));
    }
    if items.is_empty() {
        return Err(DecodeError("config not found".to_owned()));
    }
    Config::collect(items, release)
}

/// Finds a key or list item that follows a tab on the same line. YAML does not allow this, and Talos rejects it, but
/// the parser of this crate accepts it.
fn find_tab<'a>(node: &'a Node, text: &str) -> Option<&'a Node> {
    let after_tab = |node: &Node| {
        let before = text.get(..node.span.start).unwrap_or_default();
        let line = before.rfind('\n').map_or(before, |at| &before[at + 1..]);
        line.contains('\t') && line.chars().all(|c| matches!(c, ' ' | '\t' | '-' | '?'))
    };
    match &node.value {
        Value::Scalar(_) => None,
        Value::Map(map) if map.flow => None,
        Value::Seq(seq) if seq.flow => None,
        Value::Map(map) => map.entries.iter().find_map(|entry| {
            let key = Some(&entry.key).filter(|key| after_tab(key));
            key.or_else(|| find_tab(&entry.value, text))
        }),
        Value::Seq(seq) => seq.items.iter().find_map(|item| {
            let item = Some(item);
            item.filter(|item| after_tab(item))
                .or_else(|| item.and_then(|item| find_tab(item, text)))
        }),
    }
}

/// apiVersion, kind and name as they are written, before the kind is determined.
fn identity(map: &Map) -> [String; 3] {
    let value = |key| {
        let value = map.get(key).and_then(Node::as_str);
        value.unwrap_or_default().to_owned()
    };
    let kind = value("kind");
    let kind = if kind.is_empty() { CONFIG_KIND.to_owned() } else { kind };
    [value("apiVersion"), kind, value("name")]
}

fn decode_document(mut node: Node, lines: &Lines, release: Release) -> Result<Document, String> {
    tags::apply(&mut node)?;
    let (version, kind_name) = version_and_kind(&node)?;
    let kind = match (version.as_str(), kind_name.as_str()) {
        (API_VERSION, "") => CONFIG_KIND,
        (_, "") => return Err("missing kind".to_owned()),
        ("", _) => return Err("missing apiVersion".to_owned()),
        (_, kind) => kind,
    };
    let kind = schema::kind(kind, release)
        .filter(|kind| kind.name == CONFIG_KIND || version == API_VERSION)
        .ok_or_else(|| format!("{kind_name:?} {version:?}: not registered"))?;
    let body = decode::decode(&node, kind.record, lines, release).map_err(|reason| {
        format!("error decoding {kind_name} to *{}: {reason}", kind.record.name)
    })?;
    decode::check_unknown_keys(&node, kind.record, release)?;
    Ok(Document { kind, body })
}

/// Version and kind of a document. The v1alpha1 document has neither; it is recognized by one of its keys.
fn version_and_kind(node: &Node) -> Result<(String, String), String> {
    let (mut version, mut kind) = (String::new(), String::new());
    for entry in node.as_map().into_iter().flat_map(|map| &map.entries) {
        let target = match entry.key.as_str() {
            Some("kind") => &mut kind,
            Some("apiVersion") => &mut version,
            Some("machine" | "cluster" | "debug" | "persist") => {
                API_VERSION.clone_into(&mut version);
                continue;
            }
            _ => continue,
        };
        match entry.value.as_str() {
            _ if entry.value.is_null() => {}
            Some(text) => text.clone_into(target),
            None => {
                let key = entry.key.as_str().unwrap_or_default();
                return Err(format!("{key} decode: not a text"));
            }
        }
    }
    Ok((version, kind))
}
