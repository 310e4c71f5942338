//! JSON patches (RFC 6902), with the habits of the Go library Talos uses: `replace` of a missing
//! key adds it, and negative indices count from the end.

use talmox_yaml::{Entry, Map, Node, Resolved, Scalar, Seq, Style, TIMESTAMP_TAG, Value, emit};

use super::PatchError;
use crate::any;
use crate::format::text;

#[derive(Clone, Debug)]
pub(super) struct JsonPatch(Vec<Operation>);

#[derive(Clone, Debug)]
struct Operation {
    kind: String,
    path: Option<String>,
    from: Option<String>,
    value: Option<Node>,
}

impl JsonPatch {
    /// Reads a list of operations, in JSON or YAML. No list at all is an empty patch.
    pub(super) fn parse(source: &str) -> Result<Self, String> {
        let documents = talmox_yaml::read(source).map_err(|error| error.to_string())?;
        let Some(document) = documents.into_iter().next() else {
            return Ok(Self(vec![]));
        };
        if document.is_null() {
            return Ok(Self(vec![]));
        }
        let Some(list) = document.as_seq() else {
            return Err("a JSON patch is a list of operations".to_owned());
        };
        let operations = list.items.iter().map(|item| match &item.value {
            Value::Map(map) => Ok(Operation::read(map)),
            _ => Err("an operation of a JSON patch is a mapping".to_owned()),
        });
        Ok(Self(operations.collect::<Result<_, _>>()?))
    }

    pub(super) fn apply(&self, config: &str) -> Result<String, PatchError> {
        let decode = |reason: String| {
            PatchError::Json(format!("failure decoding talos machine config: {reason}"))
        };
        let documents = talmox_yaml::read(config).map_err(|error| decode(error.to_string()))?;
        let [document] = documents.as_slice() else {
            return Err(PatchError::MultiDocument);
        };
        let mut json = to_json(document);
        for operation in &self.0 {
            operation.apply(&mut json).map_err(PatchError::Json)?;
        }
        Ok(emit(&json, 2))
    }
}

impl Operation {
    fn read(map: &Map) -> Self {
        let word = |key: &str| {
            let scalar = map.get(key)?.as_scalar()?;
            (scalar.resolve() == Resolved::Text).then(|| scalar.text.clone())
        };
        Self {
            kind: word("op").unwrap_or_else(|| "unknown".to_owned()),
            path: word("path"),
            from: word("from"),
            value: map.get("value").map(|value| time_as_text(&any::canonical(value))),
        }
    }

    fn apply(&self, document: &mut Node) -> Result<(), String> {
        let value = || self.value.clone().unwrap_or_else(any::null);
        match self.kind.as_str() {
            "add" => {
                let path = self.path()?;
                add(document, path, value(), "add")
            }
            "remove" => {
                let path = self.path()?;
                remove(document, path).map(drop)
            }
            "replace" => self.replace(document),
            "move" => {
                let from = self.from()?;
                let value = remove(document, from)?;
                add(document, self.path()?, value, "move")
            }
            "copy" => {
                let from = self.from()?;
                let value = get(document, from)?.unwrap_or_else(any::null);
                add(document, self.path()?, value, "copy")
            }
            "test" => {
                let path = self.path()?;
                let found =
                    if path.is_empty() { Some(document.clone()) } else { get(document, path)? };
                if found.unwrap_or_else(any::null) == value() {
                    Ok(())
                } else {
                    Err(format!("testing value {path} failed: test failed"))
                }
            }
            other => Err(format!("Unexpected kind: {other}")),
        }
    }

    fn replace(&self, document: &mut Node) -> Result<(), String> {
        let path = self.path()?;
        let value = self.value.clone().unwrap_or_else(any::null);
        if path.is_empty() {
            if value.as_scalar().is_some() {
                return Err("replace operation value must be object or array".to_owned());
            }
            *document = value;
            return Ok(());
        }
        let (container, key) = find(document, path).ok_or_else(|| {
            format!("replace operation does not apply: doc is missing path: {path}: missing value")
        })?;
        match &mut container.value {
            Value::Map(map) => set(map, &key, value),
            Value::Seq(seq) => {
                let at = index(&key, seq.items.len()).ok_or_else(|| {
                    format!(
                        "replace operation does not apply: doc is missing key: {path}: missing value"
                    )
                })?;
                seq.items[at] = value;
            }
            Value::Scalar(_) => {}
        }
        Ok(())
    }

    fn path(&self) -> Result<&str, String> {
        let missing = || format!("{} operation failed to decode path: missing value", self.kind);
        self.path.as_deref().ok_or_else(missing)
    }

    fn from(&self) -> Result<&str, String> {
        let missing = || format!("{} operation failed to decode from: missing value", self.kind);
        self.from.as_deref().ok_or_else(missing)
    }
}

/// The collection that holds the last step of a path, and that step.
fn find<'a>(document: &'a mut Node, path: &str) -> Option<(&'a mut Node, String)> {
    let mut steps: Vec<String> = path.split('/').skip(1).map(unescape).collect();
    let last = steps.pop()?;
    let mut node = document;
    for step in steps {
        node = match &mut node.value {
            Value::Map(map) => {
                let mut entries = map.entries.iter_mut();
                &mut entries.find(|entry| entry.key.as_str() == Some(&step))?.value
            }
            Value::Seq(seq) => {
                let at = index(&step, seq.items.len())?;
                &mut seq.items[at]
            }
            Value::Scalar(_) => return None,
        };
    }
    node.as_scalar().is_none().then_some((node, last))
}

fn unescape(step: &str) -> String {
    step.replace("~1", "/").replace("~0", "~")
}

fn index(step: &str, length: usize) -> Option<usize> {
    let at: isize = step.parse().ok()?;
    let at = if at < 0 { at + isize::try_from(length).ok()? } else { at };
    usize::try_from(at).ok().filter(|at| *at < length)
}

fn add(document: &mut Node, path: &str, value: Node, operation: &str) -> Result<(), String> {
    let (container, key) = find(document, path).ok_or_else(|| {
        format!(
            "{operation} operation does not apply: doc is missing path: {path:?}: missing value"
        )
    })?;
    match &mut container.value {
        Value::Map(map) => set(map, &key, value),
        Value::Seq(seq) if key == "-" => seq.items.push(value),
        Value::Seq(seq) => {
            let at = index(&key, seq.items.len() + 1).ok_or_else(|| {
                format!(
                    "error in add for path: '{path}': Unable to access invalid index: {key}: invalid index referenced"
                )
            })?;
            seq.items.insert(at, value);
        }
        Value::Scalar(_) => {}
    }
    Ok(())
}

fn set(map: &mut Map, key: &str, value: Node) {
    match map.entries.iter_mut().find(|entry| entry.key.as_str() == Some(key)) {
        Some(entry) => entry.value = value,
        None => map.entries.push(Entry { key: text(key), value }),
    }
}

fn remove(document: &mut Node, path: &str) -> Result<Node, String> {
    let (container, key) = find(document, path).ok_or_else(|| {
        format!("remove operation does not apply: doc is missing path: {path:?}: missing value")
    })?;
    match &mut container.value {
        Value::Map(map) => {
            let at = map.entries.iter().position(|entry| entry.key.as_str() == Some(&key));
            let at = at.ok_or_else(|| {
                format!(
                    "error in remove for path: '{path}': Unable to remove nonexistent key: {key}: missing value"
                )
            })?;
            Ok(map.entries.remove(at).value)
        }
        Value::Seq(seq) => {
            let at = index(&key, seq.items.len()).ok_or_else(|| {
                format!(
                    "error in remove for path: '{path}': Unable to access invalid index: {key}: invalid index referenced"
                )
            })?;
            Ok(seq.items.remove(at))
        }
        Value::Scalar(_) => Ok(any::null()),
    }
}

/// A missing key is nothing, a missing index an error.
fn get(document: &mut Node, path: &str) -> Result<Option<Node>, String> {
    let missing =
        || format!("operation does not apply: doc is missing path: {path}: missing value");
    let (container, key) = find(document, path).ok_or_else(missing)?;
    match &container.value {
        Value::Map(map) => Ok(map.get(&key).cloned()),
        Value::Seq(seq) => {
            let at = index(&key, seq.items.len()).ok_or_else(missing)?;
            Ok(Some(seq.items[at].clone()))
        }
        Value::Scalar(_) => Ok(None),
    }
}

/// The config as JSON sees it. The way there is YAML 1.1, where `off` is a boolean.
fn to_json(node: &Node) -> Node {
    match &node.value {
        Value::Map(map) => Node::from(Value::Map(Map {
            entries: map
                .entries
                .iter()
                .map(|entry| Entry {
                    key: text(entry.key.as_str().unwrap_or_default()),
                    value: to_json(&entry.value),
                })
                .collect(),
            flow: false,
        })),
        Value::Seq(seq) => Node::from(Value::Seq(Seq {
            items: seq.items.iter().map(to_json).collect(),
            flow: false,
        })),
        Value::Scalar(scalar) => match (old_bool(scalar), scalar.resolve()) {
            (Some(value), _) => Node::plain(value.to_string()),
            (None, Resolved::Float(value)) => Node::plain(json_number(value)),
            (None, Resolved::Text) => text(&scalar.text),
            (None, _) => any::canonical(node),
        },
    }
}

/// JSON shows no exponent for numbers of a usual size.
fn json_number(value: f64) -> String {
    let size = value.abs();
    if size == 0.0 {
        "0".to_owned()
    } else if (1e-6..1e21).contains(&size) {
        format!("{value}")
    } else {
        format!("{value:e}")
    }
}

fn old_bool(scalar: &Scalar) -> Option<bool> {
    if scalar.style != Style::Plain {
        return None;
    }
    match scalar.text.as_str() {
        "y" | "Y" | "yes" | "Yes" | "YES" | "on" | "On" | "ON" => Some(true),
        "n" | "N" | "no" | "No" | "NO" | "off" | "Off" | "OFF" => Some(false),
        _ => None,
    }
}

/// Dates in a patch become texts in full.
fn time_as_text(node: &Node) -> Node {
    match &node.value {
        Value::Scalar(scalar) if node.tag.as_deref() == Some(TIMESTAMP_TAG) => text(&scalar.text),
        Value::Scalar(_) => node.clone(),
        Value::Seq(seq) => Node::from(Value::Seq(Seq {
            items: seq.items.iter().map(time_as_text).collect(),
            flow: false,
        })),
        Value::Map(map) => Node::from(Value::Map(Map {
            entries: map
                .entries
                .iter()
                .map(|entry| Entry { key: entry.key.clone(), value: time_as_text(&entry.value) })
                .collect(),
            flow: false,
        })),
    }
}
