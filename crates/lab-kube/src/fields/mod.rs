//! Detection of unknown and duplicate fields. The request option `fieldValidation` decides whether they are ignored, cause a
//! warning, or are an error.

mod shape;
mod table;
mod tree;

use std::collections::BTreeSet;

use serde_json::Value;

use super::failure::Failure;
use super::kind::Kind;
use super::patch::item_key;
use super::request::{Request, Target};
use super::store::State;
use shape::FieldShape;
use tree::Tree;

/// Maximum number of messages about one object.
const MAX_MESSAGES: usize = 100;

/// Notation of field paths.
#[derive(Clone, Copy, PartialEq)]
enum Style {
    /// Plain notation of field paths, such as `spec.ports[0].name`.
    Plain,
    /// Notation of server-side apply, such as `.spec.ports[port=80,protocol="TCP"].name`.
    Typed,
}

#[derive(Debug, Default)]
struct Findings {
    /// Messages about unknown and duplicate fields.
    messages: Vec<String>,
    /// Paths of the unknown fields of an object.
    unknown: Vec<String>,
}

impl Findings {
    fn find(tree: &Tree, shape: FieldShape<'_>, style: Style) -> Self {
        let mut findings = Self::default();
        findings.walk(tree, shape, ("", "", ""), style);
        findings
    }

    /// Searches a subtree. `at` contains the path of the subtree, the name of the innermost field that contains it, and the
    /// name of the parent of that field.
    fn walk(&mut self, tree: &Tree, shape: FieldShape<'_>, at: (&str, &str, &str), style: Style) {
        let (path, field, parent) = at;
        match tree {
            Tree::Leaf => {}
            Tree::List(items) => {
                for (number, (item, value)) in items.iter().enumerate() {
                    let key =
                        (style == Style::Typed).then(|| item_key(parent, field, value)).flatten();
                    let place = match key {
                        Some(key) => format!("{path}[{key}]"),
                        None => format!("{path}[{number}]"),
                    };
                    self.walk(item, shape.item(), (&place, field, parent), style);
                }
            }
            Tree::Map(entries) => {
                let mut seen = BTreeSet::new();
                for (key, value) in entries {
                    let dot = if path.is_empty() && style == Style::Plain { "" } else { "." };
                    let place = format!("{path}{dot}{key}");
                    if !seen.insert(key) {
                        self.messages.push(format!("duplicate field \"{place}\""));
                    }
                    if let Some(inner) = shape.field(key) {
                        self.walk(value, inner, (&place, key, field), style);
                    } else {
                        self.messages.push(format!("unknown field \"{place}\""));
                        self.unknown.push(place);
                    }
                }
            }
        }
    }
}

/// Removes unknown fields from an object.
fn prune(value: &mut Value, shape: FieldShape<'_>) {
    match value {
        Value::Object(map) => map.retain(|key, value| match shape.field(key) {
            Some(inner) => {
                prune(value, inner);
                true
            }
            None => false,
        }),
        Value::Array(items) => items.iter_mut().for_each(|item| prune(item, shape.item())),
        _ => {}
    }
}

/// Sorts the messages about custom objects: first those about duplicate fields, then those about unknown fields, each by name.
fn ordered(kind: &Kind, mut messages: Vec<String>) -> Vec<String> {
    if kind.custom.is_some() {
        messages.sort_by_key(|text| (text.starts_with("unknown"), text.clone()));
    }
    messages.truncate(MAX_MESSAGES);
    messages
}

/// Checks the object that a client sent, and removes unknown fields from it.
pub(super) fn check(
    state: &mut State,
    request: &Request,
    target: &Target,
    body: &mut Value,
) -> Result<(), Failure> {
    let (kind, shape) = (&target.kind, FieldShape::of(&target.kind, &target.version));
    let how = request.parameter("fieldValidation");
    if how != "Ignore" {
        let tree = Tree::read(&request.body).unwrap_or_else(|| Tree::of(body));
        let messages = ordered(kind, Findings::find(&tree, shape, Style::Plain).messages);
        if how == "Strict" && !messages.is_empty() {
            let (name, version) = (&kind.name, &target.version);
            return Err(Failure::bad_request(format!(
                "{name} in version \"{version}\" cannot be handled as a {name}: strict decoding error: {}",
                messages.join(", ")
            )));
        }
        state.warnings.extend(messages);
    }
    prune(body, shape);
    Ok(())
}

/// Checks an object that a patch changed, and removes unknown fields from it. Unknown fields that the object had before the
/// patch are not reported.
pub(super) fn check_patched(
    state: &mut State,
    request: &Request,
    target: &Target,
    old: &Value,
    new: &mut Value,
) -> Result<(), Failure> {
    let (kind, shape) = (&target.kind, FieldShape::of(&target.kind, &target.version));
    let how = request.parameter("fieldValidation");
    if how != "Ignore" {
        let patch = Tree::read(&request.body).unwrap_or(Tree::Leaf);
        let mut messages = Findings::find(&patch, FieldShape::Anything, Style::Plain).messages;
        let before = Findings::find(&Tree::of(old), shape, Style::Plain).messages;
        let mut sorted = new.clone();
        sorted.sort_all_objects();
        let after = Findings::find(&Tree::of(&sorted), shape, Style::Plain).messages;
        messages.extend(after.into_iter().filter(|text| !before.contains(text)));
        let messages = ordered(kind, messages);
        if how == "Strict" && !messages.is_empty() {
            let is_strategic = request.content_type.contains("strategic-merge");
            let shown = if is_strategic { go_text(&request.json()?) } else { new.to_string() };
            return Err(Failure::strict_patch(&shown, &messages.join(", ")));
        }
        state.warnings.extend(messages);
    }
    prune(new, shape);
    Ok(())
}

/// Rejects a server-side apply with unknown fields. The error names the first unknown field in alphabetical order. A real API
/// server names a random one.
pub(super) fn check_applied(target: &Target, config: &Value) -> Result<(), Failure> {
    let shape = FieldShape::of(&target.kind, &target.version);
    let mut sorted = config.clone();
    sorted.sort_all_objects();
    let findings = Findings::find(&Tree::of(&sorted), shape, Style::Typed);
    match findings.unknown.first() {
        None => Ok(()),
        Some(place) => Err(Failure::not_in_schema(target, config, place)),
    }
}

/// Formats a JSON value like Go's `%v`.
fn go_text(value: &Value) -> String {
    match value {
        Value::Null => "<nil>".to_owned(),
        Value::String(text) => text.clone(),
        Value::Array(items) => {
            let items: Vec<String> = items.iter().map(go_text).collect();
            format!("[{}]", items.join(" "))
        }
        Value::Object(map) => {
            let mut items: Vec<String> =
                map.iter().map(|(key, value)| format!("{key}:{}", go_text(value))).collect();
            items.sort();
            format!("map[{}]", items.join(" "))
        }
        other => other.to_string(),
    }
}
