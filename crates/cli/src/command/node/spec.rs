//! Spec of a resource, in short form and as JSON.

use serde_json::{Map as JsonMap, Value as Json};
use talmox_yaml::{Node, Resolved, Value};

/// Maximum width of the short form.
const WIDEST: usize = 100;

/// Short form of a spec on one line, for example `stage: running, status: {ready: true}`.
pub(super) fn short(node: &Node) -> String {
    let whole = flow(node);
    let inner = whole.strip_prefix('{').and_then(|text| text.strip_suffix('}'));
    let text = inner.unwrap_or(&whole);
    match text.char_indices().nth(WIDEST) {
        Some((end, _)) => format!("{}…", text[..end].trim_end()),
        None => text.to_owned(),
    }
}

fn flow(node: &Node) -> String {
    match &node.value {
        // Control characters could move the cursor of the terminal.
        Value::Scalar(scalar) => {
            scalar.text.trim_end().chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
        }
        Value::Seq(seq) => {
            format!("[{}]", seq.items.iter().map(flow).collect::<Vec<_>>().join(", "))
        }
        Value::Map(map) => {
            let entry = |entry: &talmox_yaml::Entry| {
                format!("{}: {}", flow(&entry.key), flow(&entry.value))
            };
            format!("{{{}}}", map.entries.iter().map(entry).collect::<Vec<_>>().join(", "))
        }
    }
}

/// Spec as JSON. Scalars get the types that go-yaml gives them.
pub(super) fn json(node: &Node) -> Json {
    match &node.value {
        Value::Scalar(scalar) => match scalar.resolve() {
            Resolved::Null => Json::Null,
            Resolved::Bool(value) => value.into(),
            Resolved::Int(value) => {
                let small = i64::try_from(value).map(Json::from);
                let big = || u64::try_from(value).map(Json::from);
                small.or_else(|_| big()).unwrap_or_else(|_| scalar.text.clone().into())
            }
            Resolved::Float(value) => Json::from(value),
            Resolved::Text => scalar.text.clone().into(),
        },
        Value::Seq(seq) => seq.items.iter().map(json).collect(),
        Value::Map(map) => {
            let entry = |entry: &talmox_yaml::Entry| (flow(&entry.key), json(&entry.value));
            Json::Object(map.entries.iter().map(entry).collect::<JsonMap<_, _>>())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json as value;

    fn node(text: &str) -> Node {
        talmox_yaml::read_first(text).unwrap().unwrap()
    }

    #[test]
    fn the_short_form_is_one_line() {
        let status = "stage: running\nstatus:\n    ready: true\n    unmetConditions: []\n";
        assert_eq!(
            short(&node(status)),
            "stage: running, status: {ready: true, unmetConditions: []}"
        );
        assert_eq!(short(&node("a: \"x\\e[31m\\ny\"")), "a: x [31m y");
        let long = format!("a: {}", "ü".repeat(200));
        assert_eq!(short(&node(&long)), format!("a: {}…", "ü".repeat(WIDEST - 3)));
    }

    #[test]
    fn scalars_have_their_types() {
        let text = "a: 1\nb: '1'\nc: true\nd: null\ne: [on, 1.5]\nf: 18446744073709551615\n";
        assert_eq!(
            json(&node(text)),
            value!({"a": 1, "b": "1", "c": true, "d": null, "e": ["on", 1.5], "f": u64::MAX})
        );
    }
}
