//! Conversion of YAML to JSON.

use serde_json::{Map, Number, Value};
use talmox_yaml::{Node, Resolved};

/// First document of a YAML text.
pub(super) fn read(text: &str) -> Result<Value, String> {
    let problem = |error: talmox_yaml::ReadError| format!("error decoding the body: {error}");
    let documents = talmox_yaml::read(text).map_err(problem)?;
    Ok(documents.first().map(to_json).unwrap_or_default())
}

/// All documents of a YAML text, except empty documents.
pub fn read_all(text: &str) -> Result<Vec<Value>, String> {
    let documents = talmox_yaml::read(text).map_err(|error| error.to_string())?;
    Ok(documents.iter().map(to_json).filter(|document| !document.is_null()).collect())
}

pub fn to_json(node: &Node) -> Value {
    match &node.value {
        talmox_yaml::Value::Seq(list) => list.items.iter().map(to_json).collect(),
        talmox_yaml::Value::Map(map) => {
            let entries = map.entries.iter();
            let pair = |entry: &talmox_yaml::Entry| {
                Some((entry.key.as_str()?.to_owned(), to_json(&entry.value)))
            };
            Value::Object(entries.filter_map(pair).collect::<Map<_, _>>())
        }
        talmox_yaml::Value::Scalar(scalar) => match scalar.resolve() {
            Resolved::Null => Value::Null,
            Resolved::Bool(flag) => flag.into(),
            Resolved::Int(number) => match (i64::try_from(number), u64::try_from(number)) {
                (Ok(number), _) => number.into(),
                (_, Ok(number)) => number.into(),
                _ => Value::Null,
            },
            Resolved::Float(number) => Number::from_f64(number).map_or(Value::Null, Value::Number),
            Resolved::Text => scalar.text.as_str().into(),
        },
    }
}
