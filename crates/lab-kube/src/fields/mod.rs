//! Fields that no type has, and fields that are there twice: `fieldValidation` says what becomes of them.

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
use shape::Shape;
use tree::Tree;

/// The most that is told of one object.
const MOST: usize = 100;

/// How places are written.
#[derive(Clone, Copy, PartialEq)]
enum Style {
    /// `spec.ports[0].name`
    Plain,
    /// `.spec.ports[port=80,protocol="TCP"].name`, as server-side apply does it.
    Typed,
}

#[derive(Debug, Default)]
struct Findings {
    /// All of them, as they are told.
    told: Vec<String>,
    /// The places of fields that there are not.
    unknown: Vec<String>,
}

impl Findings {
    fn look(tree: &Tree, shape: Shape<'_>, style: Style) -> Self {
        let mut findings = Self::default();
        findings.walk(tree, shape, ("", "", ""), style);
        findings
    }

    /// `at`: the place, the name of the field that this is or is in, and of the field around that.
    fn walk(&mut self, tree: &Tree, shape: Shape<'_>, at: (&str, &str, &str), style: Style) {
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
                        self.told.push(format!("duplicate field \"{place}\""));
                    }
                    if let Some(inner) = shape.field(key) {
                        self.walk(value, inner, (&place, key, field), style);
                    } else {
                        self.told.push(format!("unknown field \"{place}\""));
                        self.unknown.push(place);
                    }
                }
            }
        }
    }
}

/// Takes away what no type has.
fn prune(value: &mut Value, shape: Shape<'_>) {
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

/// Custom objects are told of in the order of the alphabet, after what is there twice.
fn ordered(kind: &Kind, mut told: Vec<String>) -> Vec<String> {
    if kind.custom.is_some() {
        told.sort_by_key(|text| (text.starts_with("unknown"), text.clone()));
    }
    told.truncate(MOST);
    told
}

/// Looks at a whole object that was sent, and leaves what its type has.
pub(super) fn check(
    state: &mut State,
    request: &Request,
    target: &Target,
    body: &mut Value,
) -> Result<(), Failure> {
    let (kind, shape) = (&target.kind, Shape::of(&target.kind, &target.version));
    let how = request.parameter("fieldValidation");
    if how != "Ignore" {
        let tree = Tree::read(&request.body).unwrap_or_else(|| Tree::of(body));
        let told = ordered(kind, Findings::look(&tree, shape, Style::Plain).told);
        if how == "Strict" && !told.is_empty() {
            let (name, version) = (&kind.name, &target.version);
            return Err(Failure::bad_request(format!(
                "{name} in version \"{version}\" cannot be handled as a {name}: strict decoding error: {}",
                told.join(", ")
            )));
        }
        state.warnings.extend(told);
    }
    prune(body, shape);
    Ok(())
}

/// Looks at what a patch made of an object, and leaves what its type has. What was there before is not held against
/// whoever patches.
pub(super) fn check_patched(
    state: &mut State,
    request: &Request,
    target: &Target,
    old: &Value,
    new: &mut Value,
) -> Result<(), Failure> {
    let (kind, shape) = (&target.kind, Shape::of(&target.kind, &target.version));
    let how = request.parameter("fieldValidation");
    if how != "Ignore" {
        let patch = Tree::read(&request.body).unwrap_or(Tree::Leaf);
        let mut told = Findings::look(&patch, Shape::Anything, Style::Plain).told;
        let before = Findings::look(&Tree::of(old), shape, Style::Plain).told;
        let mut sorted = new.clone();
        sorted.sort_all_objects();
        let after = Findings::look(&Tree::of(&sorted), shape, Style::Plain).told;
        told.extend(after.into_iter().filter(|text| !before.contains(text)));
        let told = ordered(kind, told);
        if how == "Strict" && !told.is_empty() {
            let is_strategic = request.content_type.contains("strategic-merge");
            let shown = if is_strategic { go_text(&request.json()?) } else { new.to_string() };
            return Err(Failure::strict_patch(&shown, &told.join(", ")));
        }
        state.warnings.extend(told);
    }
    prune(new, shape);
    Ok(())
}

/// Server-side apply knows no lenience, and names one field. A real API server leaves it to chance which of several.
pub(super) fn check_applied(target: &Target, config: &Value) -> Result<(), Failure> {
    let shape = Shape::of(&target.kind, &target.version);
    let mut sorted = config.clone();
    sorted.sort_all_objects();
    let findings = Findings::look(&Tree::of(&sorted), shape, Style::Typed);
    match findings.unknown.first() {
        None => Ok(()),
        Some(place) => Err(Failure::not_in_schema(target, config, place)),
    }
}

/// A value as Go prints it.
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
