//! Printer columns of CustomResourceDefinitions.

use std::time::Duration;

use serde_json::{Value, json};

use super::{age, age_of};
use crate::object::{self, text};

/// Printer column of a CustomResourceDefinition (`additionalPrinterColumns`).
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct CustomColumn {
    definition: Value,
    path: String,
}

impl CustomColumn {
    pub(crate) fn read(column: &Value) -> Self {
        let definition = json!({
            "name": text(column, "/name"),
            "type": text(column, "/type"),
            "format": text(column, "/format"),
            "description": text(column, "/description"),
            "priority": object::number(column, "/priority").unwrap_or_default(),
        });
        Self { definition, path: text(column, "/jsonPath").to_owned() }
    }

    fn cell(&self, object: &Value, now: Duration) -> Value {
        let Some(found) = find(object, &self.path) else { return Value::Null };
        match (self.definition["type"].as_str(), found) {
            (Some("date"), Value::String(time)) => age::since(time, now).into(),
            (Some("string"), Value::String(text)) => text.as_str().into(),
            (Some("string"), other) => other.to_string().into(),
            (_, other) => other.clone(),
        }
    }
}

fn column(name: &str, kind: &str, format: &str) -> Value {
    json!({"name": name, "type": kind, "format": format, "description": "", "priority": 0})
}

pub(super) fn definitions(columns: &[CustomColumn]) -> Vec<Value> {
    let mut all = vec![column("Name", "string", "name")];
    all.extend(columns.iter().map(|column| column.definition.clone()));
    if columns.is_empty() {
        all.push(column("Age", "date", ""));
    }
    all
}

pub(super) fn cells(columns: &[CustomColumn], object: &Value, now: Duration) -> Vec<Value> {
    let mut all = vec![Value::from(object::name(object))];
    all.extend(columns.iter().map(|column| column.cell(object, now)));
    if columns.is_empty() {
        all.push(age_of(object, now).into());
    }
    all
}

/// Evaluates a JSON path with fields, indices, and `[?(@.field=="value")]`.
fn find<'o>(object: &'o Value, path: &str) -> Option<&'o Value> {
    let mut at = object;
    let mut rest = path;
    while !rest.is_empty() {
        if let Some(filter) = rest.strip_prefix("[?(@.") {
            let (condition, after) = filter.split_once(")]")?;
            let (field, wanted) = condition.split_once("==")?;
            let wanted = wanted.trim().trim_matches(['"', '\'']);
            at = at.as_array()?.iter().find(|item| item[field.trim()] == wanted)?;
            rest = after;
        } else if let Some(inside) = rest.strip_prefix('[') {
            let (step, after) = inside.split_once(']')?;
            at = match step.parse::<usize>() {
                Ok(index) => at.get(index)?,
                Err(_) => at.get(step.trim_matches(['"', '\'']))?,
            };
            rest = after;
        } else {
            let start = rest.strip_prefix('.').unwrap_or(rest);
            let mut end = start.len();
            let mut escaped = false;
            for (index, letter) in start.char_indices() {
                match letter {
                    '\\' => escaped = true,
                    '.' | '[' if !escaped => {
                        end = index;
                        break;
                    }
                    _ => escaped = false,
                }
            }
            at = at.get(start[..end].replace('\\', ""))?;
            rest = &start[end..];
        }
    }
    Some(at)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_paths_select_values() {
        let object = json!({
            "metadata": {"annotations": {"a.b/c": "note"}},
            "spec": {"list": [{"x": 1}, {"x": 2}]},
            "status": {"conditions": [{"type": "Ready", "status": "True"}]},
        });
        for (path, wanted) in [
            (".spec.list[1].x", json!(2)),
            (".status.conditions[?(@.type==\"Ready\")].status", json!("True")),
            (".metadata.annotations.a\\.b/c", json!("note")),
            (".metadata.annotations['a.b/c']", json!("note")),
        ] {
            assert_eq!(find(&object, path), Some(&wanted), "{path}");
        }
        assert_eq!(find(&object, ".spec.none.x"), None);
    }
}
