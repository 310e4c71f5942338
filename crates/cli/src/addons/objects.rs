//! Objects of a rendered chart as text.

use serde_json::Value;
use talmox_plan::manifest::{Manifest, ManifestError, read_manifests, without_helm_hooks};
use talmox_yaml::build::{flag, list, map, text};
use talmox_yaml::{Node, emit_all};

/// Objects of a rendered chart, without hooks. `origin` is the chart, for messages.
pub(super) fn of_chart(origin: &str, rendered: &str) -> Result<Vec<Manifest>, ManifestError> {
    read_manifests(origin, rendered).map(without_helm_hooks)
}

/// The objects as JSON documents, which are YAML as well.
pub(super) fn as_json(objects: &[Manifest]) -> String {
    let documents: Vec<String> = objects.iter().map(|one| one.object.to_string()).collect();
    documents.join("\n---\n") + "\n"
}

/// The objects as YAML documents for people. If an object cannot be written as YAML without a difference, all are JSON.
pub(super) fn as_yaml(objects: &[Manifest]) -> String {
    let documents: Vec<Node> = objects.iter().map(|one| node(&one.object)).collect();
    let written = emit_all(&documents, 2);
    let read = read_manifests("", &written).unwrap_or_default();
    let is_same = read.len() == objects.len()
        && read.iter().zip(objects).all(|(read, object)| read.object == object.object);
    if is_same { written } else { as_json(objects) }
}

fn node(value: &Value) -> Node {
    match value {
        Value::Null => Node::plain("null"),
        Value::Bool(value) => flag(*value),
        Value::Number(number) => Node::plain(number.to_string()),
        Value::String(string) => text(string.as_str()),
        Value::Array(items) => list(items.iter().map(node)),
        Value::Object(fields) => {
            map(fields.iter().map(|(key, value)| (key.as_str(), Some(node(value)))))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_forms_give_the_same_objects() {
        let rendered = "---\n# Source: shop/a.yaml\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n\
            data: {flag: \"yes\", number: \"0644\", lines: \"a\\n b\\n\", empty: \"\", time: \"2001-01-01\"}\n\
            ---\napiVersion: v1\nkind: Service\nmetadata: {name: b}\nspec: {ports: [{port: 80}], x: null, y: 1.5}\n";
        let objects = of_chart("chart shop", rendered).unwrap();
        for written in [as_json(&objects), as_yaml(&objects)] {
            let read = read_manifests("x", &written).unwrap();
            let values: Vec<&Value> = read.iter().map(|one| &one.object).collect();
            assert_eq!(values, objects.iter().map(|one| &one.object).collect::<Vec<_>>());
        }
        assert!(as_yaml(&objects).starts_with("apiVersion: v1\n"));
    }
}
