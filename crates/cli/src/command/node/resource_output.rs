//! Output of resources as in talosctl: table, YAML and JSON.

use std::collections::BTreeMap;

use serde_json::{Value as Json, json};
use talmox_talos_api::client::{Resource, ResourceKind};
use talmox_yaml::build::{list, map, text, unless_empty};
use talmox_yaml::{Node, TIMESTAMP_TAG, Value};

use super::column::TableLayout;
use super::spec;
use crate::words;

/// Indentation of YAML, the same as in Talos.
const INDENT: usize = 4;

/// YAML document with the node name and a resource. The spec is copied unchanged.
pub(super) fn yaml(node: &str, one: &Resource) -> String {
    let head = map([("node", Some(plain(node))), ("metadata", Some(metadata(one)))]);
    // Go writes no space after the colon of an empty value.
    let head = talmox_yaml::emit(&head, INDENT).replace(": \n", ":\n");
    let spec = one.yaml().expose();
    if spec.trim().is_empty() {
        return format!("{head}spec: {{}}\n");
    }
    if let Some(whole) = as_text(one) {
        return format!("{head}{}", talmox_yaml::emit(&map([("spec", Some(whole))]), INDENT));
    }
    let indented: String = spec
        .lines()
        .map(|line| if line.is_empty() { "\n".to_owned() } else { format!("    {line}\n") })
        .collect();
    format!("{head}spec:\n{indented}")
}

pub(super) fn json(node: &str, one: &Resource) -> Json {
    let spec = as_text(one).or_else(|| one.tree()).map(|tree| spec::json(&tree));
    json!({ "node": node, "metadata": spec::json(&metadata(one)), "spec": spec })
}

/// Table of resources. The table shows no content of a resource for which `is_hidden` is true.
pub(super) fn table(
    node: &str,
    found: &[Resource],
    layout: Option<&TableLayout>,
    is_hidden: impl Fn(&Resource) -> bool,
) -> String {
    let columns = layout.map(|layout| layout.columns.as_slice()).unwrap_or_default();
    let is_empty = !found.is_empty() && found.iter().all(&is_hidden);
    let mut headings: Vec<String> =
        ["NODE", "NAMESPACE", "TYPE", "ID", "VERSION"].map(str::to_owned).into();
    if !is_empty {
        // For a type without columns of its own, the table shows the short form of the spec.
        match columns {
            [] => headings.push("SPEC".to_owned()),
            columns => headings.extend(columns.iter().map(|column| column.heading.clone())),
        }
    }
    let row = |one: &Resource| {
        let kind = layout.map_or_else(|| plural(&one.kind), |layout| layout.display_type.clone());
        let mut row =
            vec![node.to_owned(), one.namespace.clone(), kind, one.id.clone(), one.version.clone()];
        let tree = one.tree().filter(|_| !is_hidden(one));
        match (tree, columns) {
            (None, _) => {}
            (Some(tree), []) => row.push(spec::short(&tree)),
            (Some(tree), columns) => row.extend(columns.iter().map(|column| column.text(&tree))),
        }
        row.resize(headings.len(), String::new());
        row
    };
    let rows: Vec<Vec<String>> =
        std::iter::once(headings.clone()).chain(found.iter().map(row)).collect();
    words::aligned(&rows)
}

/// Short plural name of a type, for example `Members` for `Members.cluster.talos.dev`.
fn plural(kind: &str) -> String {
    kind.split('.').next().unwrap_or_default().to_owned()
}

/// Metadata in the order and style of talosctl, for example `version: 3`, and `owner:` for an empty owner.
fn metadata(one: &Resource) -> Node {
    let field = |text: &str| Some(plain(text));
    let table = |pairs: &BTreeMap<String, String>| {
        unless_empty(map(pairs.iter().map(|(key, value)| (key.as_str(), field(value)))))
    };
    let finalizers = one.finalizers.iter().map(|name| plain(name));
    map([
        ("namespace", field(&one.namespace)),
        ("type", field(&one.kind)),
        ("id", field(&one.id)),
        ("version", field(&one.version)),
        ("owner", field(&one.owner)),
        ("phase", field(&one.phase)),
        ("created", field(&one.created.to_string())),
        ("updated", field(&one.updated.to_string())),
        ("labels", table(&one.labels)),
        ("annotations", table(&one.annotations)),
        ("finalizers", unless_empty(list(finalizers))),
    ])
}

/// Scalar without quotes, because talosctl writes metadata without quotes: `3`, `true`, a time, or empty.
fn plain(text: &str) -> Node {
    let mut node = Node::plain(text);
    node.tag = Some(TIMESTAMP_TAG.to_owned());
    node
}

/// Spec as one text, for resources such as machine configs whose spec is a text. `None` for other resources. Older nodes
/// send a machine config as several YAML documents. A parser would return only the first of these documents.
fn as_text(one: &Resource) -> Option<Node> {
    let is_config = one.kind == ResourceKind::MACHINE_CONFIG.name && one.annotations.is_empty();
    let documents = talmox_yaml::read(one.yaml().expose()).ok()?;
    match documents.as_slice() {
        [only] if matches!(&only.value, Value::Scalar(_)) => Some(only.clone()),
        [_] if !is_config => None,
        _ => Some(text(one.yaml().expose())),
    }
}
