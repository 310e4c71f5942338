//! YAML encoding of specs.

use serde_json::Value;
use talmox_yaml::Node;
use talmox_yaml::build::{flag, list, map, text};

pub(crate) fn to_yaml(value: &Value) -> String {
    talmox_yaml::emit(&node(value), 4)
}

fn node(value: &Value) -> Node {
    match value {
        Value::Null => Node::plain("null"),
        Value::Bool(value) => flag(*value),
        Value::Number(number) => Node::plain(number.to_string()),
        Value::String(string) => text(string),
        Value::Array(items) => list(items.iter().map(node)),
        Value::Object(fields) => {
            map(fields.iter().map(|(key, value)| (key.as_str(), Some(node(value)))))
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn specs_are_formatted_like_go_yaml() {
        let spec = json!({
            "stage": "running", "ready": true, "count": 3, "mac": "00:11:22:33:44:55",
            "none": [], "list": ["a", "1"], "inner": {"empty": ""},
        });
        assert_eq!(
            to_yaml(&spec),
            "stage: running\nready: true\ncount: 3\nmac: \"00:11:22:33:44:55\"\nnone: []\nlist:\n    \
             - a\n    - \"1\"\ninner:\n    empty: \"\"\n"
        );
        assert_eq!(to_yaml(&json!("controlplane")), "controlplane\n");
    }
}
